"""Agents and cohorts as plain JSON values, and back: exactly, or not at all.

Everything that comes back is checked against what the problem and the policy say it must be: lengths, finiteness,
signs, ranges. The checksum only tells accidents from contents.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune._version import __version__
from opportune.core.layout import Budget, Counts, Layout, Model, Snapshot
from opportune.errors import OpportuneError, StateError
from opportune.live.agent import LEARNED, NOTHING, SKIPPED, WAITING, Agent, Step
from opportune.live.decision import Proposal
from opportune.policy import Policy
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.problems.settings import Located

FORMAT = 3
GROUPS = {"model": Model, "counts": Counts, "snapshot": Snapshot, "budget": Budget}
STATUSES = (WAITING, LEARNED, SKIPPED, NOTHING)


def sealed(saved: dict[str, Any]) -> dict[str, Any]:
    """What is saved, with its format, version and checksum."""
    whole = {"format": FORMAT, "version": __version__, **saved}
    return {**whole, "checksum": checksum(whole)}


def unsealed(saved: Any, what: str) -> Mapping[str, Any]:
    """What was saved, if format, kind and checksum fit."""
    if not isinstance(saved, Mapping) or "format" not in saved:
        raise StateError(f"this is not the state of a {what}: it has no 'format'")
    if saved["format"] != FORMAT:
        raise StateError(
            f"the state has format {saved['format']!r}, written by version {saved.get('version')!r}; "
            f"this version ({__version__}) reads format {FORMAT}: go on with the version that wrote it, or begin anew"
        )
    if saved.get("kind") != what:
        raise StateError(f"this is the state of a {saved.get('kind')!r}; expected that of a {what}")
    body = {key: value for key, value in saved.items() if key != "checksum"}
    if saved.get("checksum") != checksum(body):
        raise StateError("the state's checksum does not fit its contents: it was changed or cut after saving")
    return saved


def checksum(saved: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON text; numbers are written so that they read back exactly."""
    try:
        text = json.dumps(saved, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        raise StateError("the state is not made of plain JSON values; expected what to_dict gave") from None
    return hashlib.sha256(text.encode()).hexdigest()


def describe_agent(agent: Agent) -> dict[str, Any]:
    """An agent that shares nothing."""
    return {
        "kind": "agent",
        "problem": agent.problem.to_dict(),
        "policy": agent.policy.describe(),
        "horizon": agent.horizon,
        "seed": agent.seed,
        **describe_participant(agent, tuple(GROUPS)),
    }


def describe_participant(agent: Agent, own: tuple[str, ...]) -> dict[str, Any]:
    """What is a participant's own: its stream, its steps and the groups of its state that it does not share."""
    return {
        "stream": agent.stream,
        "step": agent.step,
        "state": {name: agent._groups[name].tolist() for name in own},
        "steps": [_describe_step(s) for s in agent._steps.values()],
        "order": list(agent._order),
        "late_answer": agent._late_answer,
        "proposal": None if agent._proposal is None else _describe_proposal(agent._proposal),
        "given": agent._given,
        "out": agent._out.tolist(),
    }


def restore_problem(saved: Any) -> Problem | ContinuousProblem:
    """The problem that its to_dict described."""
    if not isinstance(saved, Mapping):
        raise StateError("the state has no problem; expected what to_dict gave")
    return ContinuousProblem.from_dict(saved) if "formula" in saved else Problem.from_dict(saved)


def restore_agent(saved: Mapping[str, Any]) -> Agent:
    """The agent that `describe_agent` described."""
    with _Careful():
        agent = Agent(
            restore_problem(saved["problem"]),
            Policy.from_dict(saved["policy"]),
            horizon=saved["horizon"],
            seed=saved["seed"],
            stream=saved["stream"],
        )
        restore_participant(agent, saved, tuple(GROUPS))
    return agent


def restore_participant(agent: Agent, saved: Mapping[str, Any], own: tuple[str, ...]) -> None:
    """Bring a new agent to where `describe_participant` found it."""
    agent.step = checks.whole("step", saved["step"], least=0, most=agent.horizon)
    for name in own:
        restore_group(agent._at, name, saved["state"][name], agent._groups[name], agent._amount, agent._hard)
    entries = [_restore_step(agent, s) for s in saved["steps"]]
    if [s.step for s in entries] != list(range(1, agent.step + 1)):
        raise StateError("the state's steps are not one for each decision made")
    agent._steps = {s.step: s for s in entries}
    agent._order = [checks.whole("order", n, least=1, most=agent.step) for n in saved["order"]]
    agent._late_answer = checks.yes_no("late_answer", saved["late_answer"])
    agent._proposal = _restore_proposal(agent, saved["proposal"])
    if [s.step for s in entries if not s.settled] != ([agent.step] if agent._proposal else []):
        raise StateError("the state's open step and its proposal do not fit together")
    agent._given = saved["given"]
    agent._out[:] = _numbers("out", saved["out"], agent._out.size)


def restore_group(at: Layout, name: str, saved: Any, into: NDArray[np.float64], amount: float, hard: bool) -> None:
    """Check a group of the state against its layout, and take it over."""
    numbers = _numbers(name, saved, into.size)
    parts = at.views(GROUPS[name], numbers)
    sizes = at.sizes
    if name in {"model", "snapshot"}:
        diagonal = parts.cov[: sizes.d * sizes.stride].reshape(sizes.d, sizes.stride).diagonal()
        _must(bool((diagonal > 0.0).all()), f"{name}.cov has a variance that is not positive")
        _must(parts.radius[0] >= 0.0, f"{name}.radius is negative")
    if name == "model":
        _must(parts.log_det[0] >= -1e-9, "model.log_det is negative")
    if name == "snapshot":
        actions = parts.action[: sizes.strata if sizes.contexts else 0]
        whole = (actions == np.floor(actions)) & (actions >= 0) & (actions < sizes.actions)
        _must(bool(whole.all()), f"snapshot.action has an action that is not one of {sizes.actions}")
        _must(bool((parts.count >= 0.0).all()), "snapshot.count is negative")
    if name == "counts":
        for part in ("count", "seen", "pending_seen", "pending_count", "held_until"):
            _must(bool((getattr(parts, part) >= 0.0).all()), f"counts.{part} is negative")
    if name == "budget":
        spent, nudges = float(parts.spent[0]), float(parts.nudges[0])
        _must(parts.price[0] >= 0.0, "budget.price is negative")
        _must(0.0 <= spent <= amount + 1e-6, f"budget.spent is {spent:g}; the budget is {amount:g}")
        _must(nudges >= 0.0 and nudges.is_integer(), f"budget.nudges is {nudges:g}; expected a count")
        _must(not hard or nudges <= amount, f"budget.nudges is {nudges:g}; the hard budget is {amount:g}")
    into[:] = numbers


class _Careful:
    """Whatever is wrong with a saved state is a StateError that says so."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, StateError):
            return
        if isinstance(error, OpportuneError):
            raise StateError(f"the state cannot be resumed: {error}") from None
        if isinstance(error, KeyError):
            raise StateError(f"the state cannot be resumed: it lacks {error.args[0]!r}") from None
        if isinstance(error, TypeError | ValueError | IndexError | AttributeError | OverflowError):
            raise StateError(f"the state cannot be resumed: {error}") from None


careful = _Careful


def _numbers(name: str, saved: Any, size: int) -> NDArray[np.float64]:
    if not isinstance(saved, list) or len(saved) != size:
        length = f"{len(saved)} numbers" if isinstance(saved, list) else type(saved).__name__
        raise StateError(f"{name} is {length}; expected a list of {size} numbers")
    if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in saved):
        raise StateError(f"{name} holds something that is not a number")
    numbers = np.array(saved, dtype=np.float64)
    _must(bool(np.isfinite(numbers).all()), f"{name} holds NaN or infinity")
    return numbers


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StateError(f"the state cannot be resumed: {otherwise}")


def _describe_step(s: Step) -> dict[str, Any]:
    place = s.place
    return {
        "step": s.step, "stratum": place.stratum, "sense": place.sense, "context": place.context,
        "values": place.values.tolist(), "missing": list(place.missing), "unreported": list(place.unreported),
        "reported": s.reported, "action": s.action, "settled": s.settled, "seen": s.seen,
        "unanswered": s.unanswered, "status": s.status, "reward": s.reward,
    }  # fmt: skip


def _restore_step(agent: Agent, saved: Mapping[str, Any]) -> Step:
    problem = agent.problem
    finite = isinstance(problem, Problem)
    values = _numbers("values", saved["values"], 0 if isinstance(problem, Problem) else len(problem.variables) + 1)
    place = Located(
        checks.whole("stratum", saved["stratum"], least=0, most=problem.strata - 1),
        checks.whole("sense", saved["sense"], least=0, most=problem.senses - 1 if isinstance(problem, Problem) else 0),
        checks.whole("context", saved["context"], least=-1, most=problem.contexts - 1 if finite else 0),
        values,
        tuple(saved["missing"]),
        tuple(saved["unreported"]),
    )
    reported = saved["reported"]
    if reported is not None and not isinstance(reported, dict):
        raise StateError(f"reported is {reported!r}; expected {{variable: value}}")
    settled = checks.yes_no("settled", saved["settled"])
    return Step(
        checks.whole("step", saved["step"], least=1, most=agent.horizon), place, reported,
        checks.whole("action", saved["action"], least=0 if settled else -1, most=problem.actions - 1),
        settled, checks.yes_no("seen", saved["seen"]), checks.yes_no("unanswered", saved["unanswered"]),
        checks.choice("status", saved["status"], STATUSES), checks.real("reward", saved["reward"]),
    )  # fmt: skip


def _describe_proposal(proposal: Proposal) -> dict[str, Any]:
    """A proposal without the decision before it, which has been handed out."""
    names = [f.name for f in dataclasses.fields(proposal) if f.name != "previous"]
    return {name: getattr(proposal, name) for name in names}


def _restore_proposal(agent: Agent, saved: Any) -> Proposal | None:
    if saved is None:
        return None
    proposal = Proposal(**saved)
    for name in ("nudged", "opened", "available", "priced"):
        checks.yes_no(name, getattr(proposal, name))
    for name in ("action", "fresh_action"):
        checks.choice(name, getattr(proposal, name), agent.problem.action_names)
    for name in ("probability", "gap", "price", "coin", "disagreement", "tolerance"):
        checks.real(name, getattr(proposal, name))
    if not math.isinf(proposal.budget_left):
        checks.real("budget_left", proposal.budget_left)
    if checks.whole("step", proposal.step, least=1) != agent.step:
        raise StateError(f"the open proposal is of step {proposal.step}; expected {agent.step}")
    return proposal
