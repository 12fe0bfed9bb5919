"""Logged decisions as the dictionary that Open Bandit Pipeline reads, and back.

Each row is a decision: its context, action, reward, and the probability of the action (`pscore`). Off-policy estimators
divide by this probability, so it must be known exactly: results are rejected if actions were not drawn at random, or
with probabilities that were not recorded.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from opportune import checks
from opportune.analysis.inputs import check_results
from opportune.errors import InputError

Floats = NDArray[np.float64]
PROBABILITY = "action_probability"
MOST_COLUMNS = 10_000
_RANDOMISED = "expected a policy that draws its actions, such as one with LinUCB(floor=0.05) or EqualCoins()"


def to_bandit_feedback(
    data: xr.Dataset | pd.DataFrame,
    *,
    policy: str | None = None,
    variables: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Logged decisions in Open Bandit Pipeline's format: context, action, reward, pscore and the rest.

    Decisions without a reward are left out, and so are those at which the participant was unavailable, which a log may
    mark in a column `available`. If a log has a column `reward_imputed`, decisions with imputed rewards are left out,
    too.

    Args:
        data: results of `simulate` with a trace and finite contexts; or a log, one row per decision, with the
            columns `action`, `reward` and `action_probability` (and, for `pi_b`, `action_probability_NAME` for each
            action), such as an exported decisions.csv.
        policy: the policy whose decisions to take, if results have several policies.
        variables: for a log, the columns that make up the context: numbers as they are, texts as a column of 0 and 1
            for each level. For results of `simulate`, the context is a column of 0 and 1 for each context.
        actions: for a log, the names of the actions in order; by default those in the log, sorted.

    Returns:
        The dictionary. `pscore` is the probability of the action given everything known at that moment; a policy that
        learns has different probabilities at each decision.

    """
    if isinstance(data, pd.DataFrame):
        if policy is not None:
            raise InputError("policy is given with a log; expected it only with results of simulate")
        return _of_log(data, variables, actions)
    if variables is not None or actions is not None:
        raise InputError("variables and actions are for a log in a DataFrame; results of simulate have their own")
    return _of_results(check_results(data, "bandit feedback"), policy)


def from_bandit_feedback(feedback: Mapping[str, Any], *, actions: Sequence[str] | None = None) -> pd.DataFrame:
    """A log, one row per decision, from Open Bandit Pipeline's dictionary.

    Args:
        feedback: the dictionary.
        actions: names of the actions; by default their numbers.

    Returns:
        Columns x0, x1, ... for the context, `action`, `reward`, `action_probability` and, if the dictionary has
        `pi_b`, `action_probability_NAME` for each action. `to_bandit_feedback` converts it back to the same dictionary.

    """
    given = checks.mapping("feedback", feedback, "a dictionary with context, action, reward and pscore")
    for name in ("n_actions", "context", "action", "reward", "pscore"):
        if given.get(name) is None:
            raise InputError(f"feedback has no {name!r}; expected context, action, reward, pscore and n_actions")
    if given.get("position") is not None and np.any(np.asarray(given["position"]) != 0):
        raise InputError("feedback has several positions; expected lists of one action")
    count = checks.whole("n_actions", given["n_actions"], least=2)
    names = _names(actions, count)
    action = np.asarray(given["action"])
    if action.ndim != 1 or action.dtype.kind not in "iu" or not action.size:
        raise InputError(f"action is {checks.brief(action)}; expected a whole number for each round")
    if action.min() < 0 or action.max() >= count:
        raise InputError(f"action is from {action.min()} to {action.max()}; expected 0 to {count - 1}")
    rounds = action.size if given.get("n_rounds") is None else checks.whole("n_rounds", given["n_rounds"], least=1)
    if rounds != action.size:
        raise InputError(f"n_rounds is {rounds}; expected {action.size}, the number of actions")
    context = checks.array("context", given["context"], (action.size, "columns"))
    frame = pd.DataFrame({f"x{i}": context[:, i] for i in range(context.shape[1])})
    frame["action"] = [names[a] for a in action]
    frame["reward"] = checks.array("reward", given["reward"], (action.size,))
    taken = _probabilities(checks.array("pscore", given["pscore"], (action.size,)))
    frame[PROBABILITY] = taken
    if given.get("pi_b") is not None:
        chances = checks.array("pi_b", given["pi_b"], (action.size, count, 1))[:, :, 0]
        _check_chances(chances, action, taken, "pi_b", "pscore")
        for a, name in enumerate(names):
            frame[f"{PROBABILITY}_{name}"] = chances[:, a]
    return frame


def _of_results(data: xr.Dataset, policy: str | None) -> dict[str, Any]:
    """Decisions of one policy in all worlds and replicates, in this order, step by step."""
    names = [str(name) for name in data["policy"].values]
    if policy is None and len(names) > 1:
        raise InputError(f"data has the policies {names}; expected policy=... to choose one")
    chosen = checks.choice("policy", names[0] if policy is None else policy, names)
    if "step" not in data.dims:
        raise InputError("data has totals only; expected every step, simulate(..., trace=True)")
    if "context_count" not in data and "context_name" not in data.coords:
        raise InputError("the contexts of data are not a finite set; expected a world whose contexts are")
    if PROBABILITY not in data:
        raise InputError(f"no policy of data draws its actions by chance; {_RANDOMISED}")
    run = data.isel(policy=names.index(chosen))
    axes = ("world", "replicate", "step")
    chances = run[PROBABILITY].transpose(*axes, "actions").values.reshape(-1, data.sizes["actions"])
    action, context, reward, available = (
        run[name].transpose(*axes).values.ravel() for name in ("action", "context", "reward", "available")
    )
    kept = available & ~np.isnan(reward)
    chances, action, context = chances[kept], action[kept].astype(np.int64), context[kept].astype(np.int64)
    if np.isnan(chances).any():
        raise InputError(f"data does not record how {chosen!r} draws its actions; {_RANDOMISED}")
    contexts = data.sizes.get("contexts", int(context.max(initial=0)) + 1)
    checks.memory(f"the context of {action.size:,} decisions", 8.0 * action.size * contexts, "fewer runs")
    return _feedback(np.eye(contexts)[context], action, reward[kept], chances, chosen)


def _of_log(frame: pd.DataFrame, variables: Sequence[str] | None, actions: Sequence[str] | None) -> dict[str, Any]:
    """Decisions of a log."""
    for name in ("action", "reward", PROBABILITY):
        checks.choice("column of data", name, [str(each) for each in frame.columns])
    if variables is None:
        raise InputError("variables is None; expected the columns of data that make up the context")
    wanted = checks.listed("variables", variables, "a list of columns", most=MOST_COLUMNS)
    if not wanted:
        raise InputError("variables is empty; expected at least one column of data")
    for name in wanted:
        checks.choice("column of data", name, [str(each) for each in frame.columns])
    observed = ~np.isnan(_numbers(frame, "reward"))
    if "reward_imputed" in frame:
        observed &= _numbers(frame, "reward_imputed") != 1.0
    if "available" in frame:
        observed &= _numbers(frame, "available") != 0.0
    kept = frame[observed]
    if kept.empty:
        raise InputError("data has no decision with a reward; expected some")
    missing = [name for name in ("action", PROBABILITY, *wanted) if kept[name].isna().any()]
    if missing:
        raise InputError(f"data has decisions without {missing[0]!r}; expected a value in each, or their removal")
    found = [str(name) for name in kept["action"]]
    names = sorted(set(found)) if actions is None else _names(actions, len(list(actions)))
    for name in set(found):
        checks.choice("action in data", name, names)
    action = np.array([names.index(name) for name in found])
    columns = [f"{PROBABILITY}_{name}" for name in names]
    taken = _probabilities(_numbers(kept, PROBABILITY))
    chances = None
    if set(columns) <= set(frame.columns):
        chances = np.stack([_numbers(kept, name) for name in columns], axis=1)
        _check_chances(chances, action, taken, f"the columns {PROBABILITY}_NAME", PROBABILITY)
    context = np.concatenate([_coded(kept[name]) for name in wanted], axis=1)
    reward = checks.array("reward", _numbers(kept, "reward"), ("decisions",))
    return _feedback(context, action, reward, chances, "data", taken, len(names))


def _numbers(frame: pd.DataFrame, name: str) -> Floats:
    """A column's numbers, NaN for empty cells."""
    try:
        return np.asarray(pd.to_numeric(frame[name]).to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        raise InputError(f"column {name!r} of data contains something other than numbers; expected numbers") from None


def _check_chances(chances: Floats, action: NDArray[np.int64], taken: Floats, name: str, of_taken: str) -> None:
    """Reject invalid probabilities, and any that differ from those of the actions taken."""
    if not ((chances >= 0.0).all() and np.allclose(chances.sum(axis=1), 1.0, rtol=0.0, atol=1e-6)):
        raise InputError(
            f"the probabilities in {name} of some decision do not sum to 1; expected numbers from 0 to 1 that do"
        )
    if not np.allclose(chances[np.arange(action.size), action], taken, atol=1e-9):
        raise InputError(f"{of_taken} differs from {name} for the action taken; expected the same")


def _coded(column: "pd.Series[Any]") -> Floats:
    """A variable as numbers: unchanged, or a column of 0 and 1 for each level."""
    if pd.api.types.is_numeric_dtype(column):
        values = column.to_numpy(dtype=np.float64)
        return checks.array(f"column {str(column.name)!r} of data", values, ("decisions",))[:, None]
    levels = sorted(set(column.astype(str)))
    return np.array([[float(value == level) for level in levels] for value in column.astype(str)])


def _feedback(
    context: Floats, action: NDArray[np.int64], reward: Floats, chances: Floats | None, whose: str,
    taken: Floats | None = None, count: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """The dictionary; rejects data in which nothing was drawn."""
    if not action.size:
        raise InputError("data has no decision with a reward; expected some")
    if chances is not None:
        count = chances.shape[1]
        taken = chances[np.arange(action.size), action]
    assert taken is not None
    if (taken >= 1.0).all():
        raise InputError(f"every action of {whose!r} was certain; {_RANDOMISED}")
    found = {
        "n_rounds": int(action.size),
        "n_actions": int(count),
        "context": context,
        "action_context": np.eye(count),
        "action": action,
        "position": None,
        "reward": reward,
        "pscore": _probabilities(taken),
    }
    return found if chances is None else {**found, "pi_b": chances[:, :, None]}


def _probabilities(values: Floats) -> Floats:
    """Check probabilities of actions that happened: above 0, at most 1."""
    if not ((values > 0.0) & (values <= 1.0)).all():
        bad = values[~((values > 0.0) & (values <= 1.0))][0]
        raise InputError(f"the probability of an action taken is {bad:g}; expected above 0 and at most 1")
    return values


def _names(actions: Sequence[str] | None, count: int) -> list[str]:
    """`count` names of actions."""
    if actions is None:
        return [str(a) for a in range(count)]
    names = [checks.text("name of an action", name) for name in checks.listed("actions", actions, "names", most=127)]
    if len(names) != count or len(set(names)) < count:
        raise InputError(f"actions is {checks.brief(names)}; expected {count} different names")
    return names
