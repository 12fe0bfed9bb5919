"""`ResampledWorld`: a world based on logged data, whose contexts and rewards are drawn from its rows."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.engine.compiled import inner_function
from opportune.engine.declared import Declares, Numbers
from opportune.engine.hooks import WORLDS
from opportune.errors import InputError
from opportune.problems.finite import Problem
from opportune.problems.variables import level_number
from opportune.worlds.common import Happenings
from opportune.worlds.finite import FiniteWorld, Floats
from opportune.worlds.linear import find_context, moment_of
from opportune.worlds.resampled import MOST_ROWS, read_columns

Ints = NDArray[np.int64]

LEAST = 5
"""The default of the least number of rows for each action in each context."""
MOST_NAMED = 5
"""The most pairs of context and action that a message names."""


class Settings(NamedTuple):
    """The log as numbers."""

    period: Annotated[Numbers, 1]  # L, the period of the schedule
    slot_of: Annotated[Numbers, "period"]  # the slot of each of its steps
    cumulative: Annotated[Numbers, "slots", "contexts"]  # context probabilities in each slot
    first: Annotated[Numbers, "contexts", "actions"]  # where the rewards of a pair of context and action begin
    count: Annotated[Numbers, "contexts", "actions"]  # and their number
    reward: Annotated[Numbers, "rows"]  # all rewards, pair by pair
    mean: Annotated[Numbers, "contexts", "actions"]  # their mean
    best: Annotated[Numbers, "contexts"]  # the mean of the best action
    blind: Annotated[Numbers, "strata", "actions"]  # the mean given only the public part


@inner_function
def arrive(p, own, draws, step, arrival):  # type: ignore[no-untyped-def]
    """The context of a random row, among those that the schedule allows at this step."""
    contexts = p.sizes.contexts
    slot = int(own.settings.slot_of[(step - 1) % int(own.settings.period[0])])
    return moment_of(p, step, find_context(own.settings.cumulative, slot * contexts, contexts, arrival))


@inner_function
def respond(p, own, draws, moment, action, noise):  # type: ignore[no-untyped-def]
    """The reward of a random row with this context and action; its mean, and that of the best action."""
    truth, pair = own.settings, moment.context * p.sizes.actions + action
    reward, count = truth.mean[pair], int(truth.count[pair])
    if count > 0:
        reward = truth.reward[int(truth.first[pair]) + min(int(noise * count), count - 1)]
    return reward, truth.mean[pair], truth.best[moment.context]


@inner_function
def blind_value(p, own, moment, action, outcome):  # type: ignore[no-untyped-def]
    """The mean reward given only the public part."""
    return own.settings.blind[moment.stratum * p.sizes.actions + action]


@WORLDS.add
class ResampledWorld(FiniteWorld):
    """A world based on logged data: contexts are drawn from all rows, rewards from rows with this context and action.

    Args:
        problem: the agents' knowledge; its formula may be wrong about the data, as in a study.
        rows: the log, {column: values} or a pandas DataFrame: a column for each variable of the problem, `action` with
            the name of the action taken, `reward` with the reward. `from_csv` reads them from a file.
        action: the name of the column of actions.
        reward: the name of the column of rewards.
        least: the rows required for each allowed action in each context that occurs. A log with fewer does not show
            the value of the action there, and is rejected.
        name: a label for tables and figures.
        happenings: openings, answers, absences, late rewards, as for LinearWorld; not the family or bounds of rewards.

    Rows are drawn independently, so effects that carry over from one decision to the next are lost. Means by context
    and action count as the truth; they are effects only if actions were randomised given the context, and means of few
    rows are noisy.

    """

    number: ClassVar[int]
    declares: ClassVar[Declares] = Declares(settings=Settings)
    arrive: ClassVar[Any] = staticmethod(arrive)
    respond: ClassVar[Any] = staticmethod(respond)
    blind_value: ClassVar[Any] = staticmethod(blind_value)

    def __init__(
        self,
        problem: Problem,
        rows: Any,
        *,
        action: str = "action",
        reward: str = "reward",
        least: int = LEAST,
        name: str = "",
        **happenings: Any,
    ) -> None:
        if not isinstance(problem, Problem):
            raise InputError(f"problem is {checks.brief(problem)}; expected a Problem, whose contexts are a finite set")
        self.problem = problem
        for setting in ("family", "bounds"):
            if setting in happenings:
                raise InputError(f"{setting} is given; expected none, as rewards come from the log")
        self.happenings = Happenings.checked(happenings, strata=problem.strata)
        self.name = checks.text("name of the world", name, empty=True)
        self.least = checks.whole("least", least, least=1, most=MOST_ROWS)
        columns = _columns(rows, [*problem.variables, action, reward])
        self._contexts = _contexts(problem, columns)
        self._actions = _actions(problem, action, columns[action])
        self._rewards = np.array(
            [checks.real(f"{reward} of row {i}", value) for i, value in enumerate(columns[reward], 1)]
        )
        self._check_support()

    @classmethod
    def from_csv(cls, problem: Problem, path: str | Path, **settings: Any) -> "ResampledWorld":
        """The world of a CSV file with a header; a row with an empty value is rejected with its line."""
        if not isinstance(problem, Problem):
            raise InputError(f"problem is {checks.brief(problem)}; expected a Problem, whose contexts are a finite set")
        wanted = [*problem.variables, *(settings.get(name, name) for name in ("action", "reward"))]
        return cls(problem, read_columns(path, wanted), **settings)

    @cached_property
    def counts(self) -> Ints:
        """The number of rows with context k and action a: [K, A]."""
        n = self.problem.contexts * self.problem.actions
        return np.asarray(np.bincount(self._pairs, minlength=n).reshape(self.problem.contexts, -1))

    @property
    def _pairs(self) -> Ints:
        """The pair of context and action of each row."""
        return np.asarray(self._contexts * self.problem.actions + self._actions)

    @cached_property
    def context_probs(self) -> Floats:  # type: ignore[override]
        """The share of rows with each context: [K]."""
        return np.bincount(self._contexts, minlength=self.problem.contexts) / self._contexts.size

    @cached_property
    def outcomes(self) -> Floats:
        """The mean reward of action a in context k, 0 without any rows: [K, A]."""
        total = np.bincount(self._pairs, self._rewards, minlength=self.counts.size).reshape(self.counts.shape)
        return np.asarray(total / np.maximum(self.counts, 1))

    def _check_support(self) -> None:
        """Reject a log without enough rows for an action that an agent may take."""
        problem, masks = self.problem, self.problem.masks
        for members in problem.slots()[1]:
            if not self.context_probs[members].sum() > 0.0:
                levels = problem.levels(int(np.flatnonzero(members)[0]))
                place = ", ".join(f"{name}={levels[name]}" for name in problem.schedule.variables)
                raise InputError(f"the log has no row with {place}; expected some at each place of the schedule")
        taken = ~(masks.whole & masks.sensed[problem.sense_of] & masks.public[problem.stratum_of])
        lacking = np.argwhere((self.context_probs > 0.0)[:, None] & taken & (self.counts < self.least))
        if not lacking.size:
            return
        needed = int((taken & (self.context_probs > 0.0)[:, None]).sum())
        named = [
            f"{', '.join(f'{n}={v}' for n, v in problem.levels(k).items())} with {problem.action_names[a]!r} has "
            f"{self.counts[k, a]}"
            for k, a in lacking[:MOST_NAMED].tolist()
        ]
        more = f"; and {len(lacking) - MOST_NAMED} more" if len(lacking) > MOST_NAMED else ""
        raise InputError(
            f"the log has fewer than {self.least} rows for {len(lacking)} of {needed} pairs of context and action: "
            f"{'; '.join(named)}{more}; expected at least that many for each that an agent may take. Merge levels, "
            f"forbid actions where they were not tried (never_if), or lower `least`"
        )

    def extents(self) -> dict[str, int]:
        """The lengths of dimensions that its declarations name and problems lack."""
        return {"period": self.slot_of.size, "slots": len(self.cumulative), "rows": self._rewards.size}

    def numbers(self) -> dict[str, Any]:
        """The log as numbers, for the fields of its settings."""
        return {
            "period": self.slot_of.size,
            "slot_of": self.slot_of,
            "cumulative": self.cumulative,
            "first": np.concatenate([[0], np.cumsum(self.counts)[:-1]]).reshape(self.counts.shape),
            "count": self.counts,
            "reward": self._rewards[np.argsort(self._pairs, kind="stable")],
            "mean": self.outcomes,
            "best": self.best,
            "blind": self.blind_values,
        }

    def __repr__(self) -> str:
        return f"ResampledWorld({self.name or 'unnamed'}, {self._rewards.size} rows, {self.problem!r})"


def _columns(rows: Any, wanted: Sequence[str]) -> dict[str, list[Any]]:
    """The columns of a log, which must have the same length."""
    if hasattr(rows, "columns") and hasattr(rows, "to_dict"):  # a DataFrame
        rows = {name: rows[name].tolist() for name in rows.columns}
    if not isinstance(rows, Mapping):
        raise InputError(f"rows is {checks.brief(rows)}; expected {{column: values}} or a DataFrame")
    found = {}
    for name in wanted:
        checks.choice("column of rows", name, [str(each) for each in rows])
        found[name] = checks.listed(f"column {name!r}", rows[name], "its values, one per row", most=MOST_ROWS)
    sizes = {name: len(values) for name, values in found.items()}
    if len(set(sizes.values())) > 1 or not next(iter(sizes.values())):
        raise InputError(f"the columns have {sizes} rows; expected the same number in each, and at least one")
    return found


def _contexts(problem: Problem, columns: Mapping[str, Sequence[Any]]) -> Ints:
    """The number of each row's context."""
    number = np.zeros(len(next(iter(columns.values()))), dtype=np.int64)
    for name, levels in problem.variables.items():
        known: dict[Any, int] = {}
        for i, value in enumerate(columns[name], 1):
            try:
                if value not in known:
                    known[value] = level_number(name, value, levels)
            except InputError as error:
                raise InputError(f"row {i}: {error}") from None
            except TypeError:  # an unhashable value, such as a list
                raise InputError(f"row {i}: {name} is {checks.brief(value)}; expected one of {list(levels)}") from None
        number = number * len(levels) + np.array([known[value] for value in columns[name]])
    return number


def _actions(problem: Problem, column: str, values: Sequence[Any]) -> Ints:
    """The number of each row's action."""
    names = {name: i for i, name in enumerate(problem.action_names)}
    for i, value in enumerate(values, 1):
        if str(value) not in names:
            raise InputError(f"{column} of row {i} is {checks.brief(value)}; expected one of {list(names)}")
    return np.array([names[str(value)] for value in values], dtype=np.int64)
