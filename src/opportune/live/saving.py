"""Agents and cohorts as plain JSON values, and back: exactly, or not at all.

Everything that comes back is checked against what the problem and the policy say it must be: lengths, finiteness,
signs, ranges. The checksum only tells accidents from contents.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune._version import __version__
from opportune.algorithm.reasons import UNASKED, WORDS
from opportune.engine.declared import Proposed, Range
from opportune.errors import OpportuneError, StateError
from opportune.live import corrections, learning
from opportune.live.agent import Agent
from opportune.live.decision import Proposal
from opportune.live.numbers import Numbers, ranges_in
from opportune.live.point import LEARNED, NOTHING, SKIPPED, UNDECIDED, UNKNOWN, WAITING, Step, new_step
from opportune.policy import Policy
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem

FORMAT = 5
MOST_STATE = 1e200
"""No number of a state can come to more, by what is refused at the door."""
STATUSES = (WAITING, LEARNED, SKIPPED, NOTHING)
HEAD = ("format", "version", "kind", "checksum")
ABOUT_AGENT = ("problem", "policy", "horizon", "seed")
ABOUT_COHORT = (*ABOUT_AGENT, "participants", "shared", "prior", "agents")
PENDING = ("counts.pending_seen", "counts.pending_count", "counts.pending_total", "counts.held_until")
ABOUT_PARTICIPANT = ("stream", "step", "state", "steps", "order", "opened_since", "withdrawn", "proposal", "waiting")
ABOUT_STEP = ("context", "reported", "action", "settled", "seen", "unanswered", "status", "reward")
_A = {"agent": "an agent", "cohort": "a cohort"}


def sealed(saved: dict[str, Any]) -> dict[str, Any]:
    """What is saved, with its format, version and checksum."""
    whole = {"format": FORMAT, "version": __version__, **saved}
    return {**whole, "checksum": checksum(whole)}


def unsealed(saved: Any, what: str) -> Mapping[str, Any]:
    """What was saved, if format, kind and checksum fit."""
    if not isinstance(saved, Mapping) or "format" not in saved:
        raise StateError(f"this is not the state of {_A[what]}: it has no 'format'")
    known = saved["format"]
    if not isinstance(known, int) or known != FORMAT:
        raise StateError(
            f"the state has format {checks.brief(known)}, written by version {checks.brief(saved.get('version'))}; "
            f"this version ({__version__}) reads format {FORMAT}: go on with the version that wrote it, or begin anew"
        )
    if not isinstance(saved.get("kind"), str) or saved["kind"] != what:
        kind = checks.brief(saved.get("kind"))
        raise StateError(f"the state's kind is {kind}; expected {what!r}, the state of {_A[what]}")
    if not isinstance(saved.get("version"), str):
        raise StateError(f"the state's version is {checks.brief(saved.get('version'))}; expected text")
    body = {key: value for key, value in saved.items() if not (isinstance(key, str) and key == "checksum")}
    if checks.brief(saved.get("checksum")) != repr(checksum(body)):
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
        **describe_participant(agent),
    }


def describe_participant(agent: Agent) -> dict[str, Any]:
    """What is a participant's own: its stream, its steps and the groups of its state that it does not share."""
    return {
        "stream": agent.stream,
        "step": agent.step,
        "state": describe_state(agent.numbers, agent.numbers.own),
        "steps": [_describe_step(s) for s in agent.steps.values()],
        "order": agent.pending.order(),
        "waiting": sorted(agent.pending.waiting),
        "opened_since": agent.opened_since,
        "withdrawn": agent.withdrawn,
        "proposal": None if agent.open_proposal is None else describe_proposal(agent.open_proposal),
    }


def restore_problem(saved: Any) -> Problem | ContinuousProblem:
    """The problem that its to_dict described."""
    if not isinstance(saved, Mapping):
        raise StateError("the state has no problem; expected what to_dict gave")
    return ContinuousProblem.from_dict(saved) if "formula" in saved else Problem.from_dict(saved)


def restore_agent(saved: Mapping[str, Any]) -> Agent:
    """The agent that `describe_agent` described."""
    with careful():
        must_know("the state", saved, (*HEAD, *ABOUT_AGENT, *ABOUT_PARTICIPANT))
        agent = Agent(
            restore_problem(saved["problem"]),
            Policy.from_dict(saved["policy"]),
            horizon=saved["horizon"],
            seed=saved["seed"],
            stream=saved["stream"],
        )
        restore_participant(agent, saved)
    return agent


def restore_participant(agent: Agent, saved: Mapping[str, Any]) -> None:
    """Bring a new agent to where `describe_participant` found it."""
    agent.step = checks.whole("step", saved["step"], least=0, most=agent.horizon)
    if not isinstance(saved["steps"], list) or len(saved["steps"]) != agent.step:
        raise StateError(f"the state cannot be resumed: its steps are not one for each of {agent.step} decisions")
    entries = [restore_step(agent, number, s) for number, s in enumerate(saved["steps"], start=1)]
    agent.steps = {s.step: s for s in entries}
    _must(isinstance(saved["order"], list), "order is not a list")
    order = [checks.whole("order", n, least=1, most=agent.step) for n in saved["order"]]
    agent.pending.waiting = waiting = learning.restore_waiting(agent, saved["waiting"])
    pending = [s.step for s in entries if s.settled and not s.seen and s.status == LEARNED and s.step not in waiting]
    _must(sorted(order) == pending, f"order is {order}; the rewards that wait are of steps {pending}")
    agent.pending.set_order(order)
    for s in entries:
        agent.pending.note(s)
    agent.opened_since = corrections.reported_between(agent, saved["opened_since"])
    agent.withdrawn = checks.yes_no("withdrawn", saved["withdrawn"])
    agent.open_proposal = restore_proposal(agent, saved["proposal"])
    unsettled = [s.step for s in entries if not s.settled]
    expected = [agent.step] if agent.open_proposal else []
    _must(unsettled == expected, "its open step and its proposal do not fit together")
    numbers = agent.numbers
    restore_state(numbers, numbers.own, saved["state"], agent.problem, decisions=agent.step, points=passed(agent))
    _check_counts(agent)


def passed(agent: Agent) -> int:
    """The decision points that are no longer to come: those of a participant who has withdrawn never will."""
    return agent.horizon if agent.withdrawn else agent.step


def describe_state(numbers: Numbers, arrays: Sequence[str]) -> dict[str, list[float]]:
    """The state in these arrays by name, without padding: any build can read it."""
    return {name: part.ravel().tolist() for name, part in numbers.parts(tuple(arrays)).items()}


def restore_state(
    numbers: Numbers, arrays: tuple[str, ...], saved: Any, problem: Any, *, decisions: int, points: int
) -> None:
    """Check a state against its layout and the decisions made so far, and take it over."""
    given = checks.mapping("state", saved, "{name: its numbers}")
    parts = numbers.parts(arrays)
    must_know("state", given, parts)
    ranges = ranges_in(numbers.at, arrays)
    limits = {"decisions": decisions, "last_action": problem.actions - 1, "last_stratum": problem.strata - 1}
    for name, part in parts.items():
        _must(name in given, f"it lacks {name}")
        found = _numbers(name, given[name], part.size)
        if name in ranges:
            _check_range(name, found, ranges[name], limits)
        part[...] = found.reshape(part.shape)
        if name.endswith(".cov"):
            _check_cov(name, part, None if numbers.at.sizes.random else numbers.regularisation)
    if "counts" in arrays:
        for name in PENDING:
            left = name in parts and parts[name].any()
            _must(not left, f"{name} is not 0, though an agent keeps its pending steps")
    if "budget" in arrays:
        _check_budget(numbers, decisions, points)


PRIOR = ("centre", "precision")


def describe_prior(common: Numbers) -> dict[str, list[float]]:
    """What participants whose models are pooled in part have in common: mu and Lambda."""
    return {name: common.parts(("model",))[f"model.{name}"].ravel().tolist() for name in PRIOR}


def restore_prior(common: Numbers, saved: Any) -> None:
    """Bring it back to where `describe_prior` found it."""
    known = common.parts(("model",))
    given = checks.mapping("prior", saved, "what to_dict gave")
    must_know("prior", given, PRIOR)
    _must("model.centre" in known, "it has a prior, but models are not pooled in part")
    for name in PRIOR:
        part = known[f"model.{name}"]
        part[...] = _numbers(name, given[name], part.size).reshape(part.shape)
    _must(bool((known["model.precision"] > 0.0).all()), "precision holds a number that is not positive")


def _check_range(name: str, numbers: NDArray[np.float64], known: Range, limits: Mapping[str, int]) -> None:
    """Numbers must be what their declaration says."""
    least, most = known.least, float(limits[known.most]) if isinstance(known.most, str) else known.most
    _must(bool((numbers >= least).all()), f"{name} is {numbers.min():g}; expected at least {least:g}")
    _must(bool((numbers <= most + 1e-6).all()), f"{name} is {numbers.max():g}; expected at most {most:g}")
    _must(not known.whole or bool((numbers == np.floor(numbers)).all()), f"{name} is not a whole number")


def _check_cov(name: str, cov: NDArray[np.float64], precision: NDArray[np.float64] | None) -> None:
    """V^-1 must be the inverse of a matrix of at least Lambda: positive in every direction, and at most Lambda^-1.

    Where Lambda moves, the largest variance stands for the one at the start.
    """
    variances = cov.diagonal()
    _must(bool((variances > 0.0).all()), f"{name} has a variance that is not positive")
    known = np.full(variances.size, 1.0 / variances.max()) if precision is None else precision
    _must(bool((variances * known <= 1.0 + 1e-6).all()), f"{name} has a variance beyond 1/lam, the one at the start")
    sd = np.sqrt(variances)
    scaled = cov / sd / sd[:, None]
    rounding = 1e-6 + 1e-10 / float((known * variances).min())  # of what began as 1/lam and has become small
    _must(bool((np.abs(scaled - scaled.T) <= rounding).all()), f"{name} is not symmetric")
    least = np.linalg.eigvalsh(np.triu(scaled), UPLO="U").min()
    _must(bool(least > -rounding), f"{name} has a direction in which the variance is not positive")


def _check_budget(numbers: Numbers, decisions: int, passed: int) -> None:
    """What was spent must be possible: by the budget, and by the decisions made so far."""
    budget, amount = numbers.budget, numbers.amount
    spent, nudges = float(budget.spent[0]), float(budget.nudges[0])
    _must(spent <= amount + 1e-6, f"budget.spent is {spent:g}; the budget is {amount:g}")
    points, foregone = float(budget.points[0]), float(budget.foregone[0])
    _must(points == decisions, f"budget.points is {points:g} after {decisions} decisions")
    expected = passed - decisions
    _must(foregone == expected, f"budget.foregone is {foregone:g}; expected {expected}, by those who have withdrawn")
    _must(not numbers.hard or nudges <= amount, f"budget.nudges is {nudges:g}; the hard budget is {amount:g}")


def _check_counts(agent: Agent) -> None:
    """The contexts counted must be those of the steps that the revealer has seen."""
    sizes = agent.numbers.at.sizes
    if sizes.counted == 0:
        return
    counts = agent.numbers.at.views("counts", agent.numbers.arrays["counts"])
    frozen = agent.numbers.at.views("snapshot", agent.numbers.arrays["snapshot"])
    expected = np.zeros_like(counts.count)
    seen = np.zeros_like(counts.seen)
    for s in agent.steps.values():
        if s.settled and s.seen and s.status != NOTHING:
            expected[s.place.stratum] += 1.0
            if sizes.senses:
                expected[sizes.strata + s.place.sense] += 1.0
            if sizes.contexts:
                seen[s.place.context] += 1.0
    same = np.array_equal(counts.count, expected) and np.array_equal(counts.seen, seen)
    _must(same, "counts.count is not what its steps add up to")
    _must(bool((frozen.count <= counts.count).all()), "snapshot.count is more than was counted")


@contextmanager
def careful() -> Iterator[None]:
    """Whatever is wrong with a saved state is a StateError that says so."""
    try:
        yield
    except StateError:
        raise
    except KeyError as error:
        raise StateError(f"the state cannot be resumed: it lacks {error.args[0]!r}") from None
    except OpportuneError as error:
        raise StateError(f"the state cannot be resumed: {error}") from None
    except (TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError, MemoryError):
        raise StateError("the state cannot be resumed: a part of it is not what to_dict gave") from None


def _numbers(name: str, saved: Any, size: int) -> NDArray[np.float64]:
    if not isinstance(saved, list) or len(saved) != size:
        length = f"{len(saved)} numbers" if isinstance(saved, list) else type(saved).__name__
        raise StateError(f"the state cannot be resumed: {name} is {length}; expected a list of {size} numbers")
    if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in saved):
        raise StateError(f"the state cannot be resumed: {name} holds something that is not a number")
    try:
        numbers = np.array(saved, dtype=np.float64)
    except OverflowError:  # a whole number with more than 308 digits
        numbers = np.array([np.inf])
    _must(bool(np.isfinite(numbers).all()), f"{name} holds NaN or infinity")
    _must(bool((np.abs(numbers) <= MOST_STATE).all()), f"{name} holds a number beyond {MOST_STATE:g}")
    return numbers


def must_know(what: str, given: Iterable[Any], known: Iterable[str]) -> None:
    """Refuse what nobody would read: it was written by something else."""
    unknown = [name for name in given if name not in known]
    _must(not unknown, f"{what} has an unknown key, {checks.brief(next(iter(unknown), None))}")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StateError(f"the state cannot be resumed: {otherwise}")


def _describe_step(s: Step) -> dict[str, Any]:
    """A step as it was given, and what became of it; its place in the contexts follows from the former."""
    return {
        "context": s.given, "reported": s.reported, "action": s.action, "settled": s.settled, "seen": s.seen,
        "unanswered": s.unanswered, "status": s.status, "reward": s.reward,
    }  # fmt: skip


def restore_step(agent: Agent, number: int, saved: Mapping[str, Any]) -> Step:
    """The step that `_describe_step` described."""
    saved = checks.mapping(f"step {number}", saved, "what to_dict gave")
    must_know(f"step {number}", saved, ABOUT_STEP)
    settled = checks.yes_no("settled", saved["settled"])
    step = new_step(agent.problem, agent.reported_names, number, saved["context"], saved["reported"])
    step.action = checks.whole(
        "action", saved["action"], least=0 if settled else UNDECIDED, most=agent.problem.actions - 1
    )
    step.settled = settled
    step.seen = checks.yes_no("seen", saved["seen"])
    step.unanswered = checks.yes_no("unanswered", saved["unanswered"])
    step.status = checks.choice("status", saved["status"], STATUSES)
    step.reward = checks.real("reward", saved["reward"])
    _must(step.status == LEARNED or step.reward == 0.0, f"step {number} has a reward, but is {step.status}")
    if not settled:
        fresh = step.seen and not step.unanswered and step.status == WAITING and step.action == UNDECIDED
        _must(fresh, f"step {number} is not settled, but something has become of it")
    elif step.status != NOTHING:
        _must(not step.place.missing, f"step {number} lacks {step.place.missing}, but was decided on")
        _must(not step.seen or step.place.context != UNKNOWN, f"step {number} is seen, but lacks reported values")
        _must(step.seen or agent.problem.reported, f"step {number} is not seen, but nothing is reported")
    return step


def describe_proposal(proposal: Proposal) -> dict[str, Any]:
    """A proposal without the decision before it, which has been handed out."""
    left = None if math.isinf(proposal.budget_left) else proposal.budget_left
    notes = None if proposal.notes is None else list(proposal.notes)
    saved = {field.name: getattr(proposal, field.name) for field in fields(proposal) if field.name != "previous"}
    return {**saved, "budget_left": left, "notes": notes, "drawn": proposal.drawn and list(proposal.drawn)}


def restore_proposal(agent: Agent, saved: Any) -> Proposal | None:
    """The open proposal; what compiled code found of its moment goes back where `settle` looks for it."""
    if saved is None:
        return None
    saved = checks.mapping("proposal", saved, "what to_dict gave")
    endless = math.isinf(agent.numbers.amount)
    _must(not endless or saved["budget_left"] is None, "the open proposal has a budget left, but there is none")
    left = math.inf if endless else checks.real("budget_left", saved["budget_left"])
    notes = saved["notes"]
    if notes is not None:
        notes = tuple(_numbers("notes", notes, agent.numbers.notes.size).tolist())
    checks.settings("the open proposal", saved, Proposal, without=("previous",))
    known = {name: saved[name] for field in fields(Proposal) if (name := field.name) != "previous"}
    drawn = saved["drawn"]
    if drawn is not None:
        drawn = tuple(_numbers("drawn", drawn, agent.numbers.chance.size).tolist())
        sound = drawn[-1] in range(agent.problem.actions) and abs(sum(drawn[:-2]) - 1.0) <= 1e-6
        _must(sound, "the open proposal's probabilities do not sum to 1, or it intends an action that does not exist")
    proposal = Proposal(**{**known, "budget_left": left, "notes": notes, "drawn": drawn})
    _must(proposal.rule == type(agent.policy.revealer).__name__, "the open proposal is of another revealer")
    for name in ("nudged", "opened", "available", "priced", "eligible"):
        checks.yes_no(name, getattr(proposal, name))
    for name in ("gap", "price", "disagreement", "tolerance"):
        checks.real(name, getattr(proposal, name))
    checks.real("probability", proposal.probability, least=0.0, most=1.0)
    checks.real("coin", proposal.coin, least=0.0, below=1.0)
    names = agent.problem.action_names
    given = (proposal.fresh_action, proposal.stale_action, proposal.action)
    fresh, stale, standing = (names.index(checks.choice("action", action, names)) for action in given)
    step = checks.whole("step", proposal.step, least=1)
    _must(step == agent.step, f"the open proposal is of step {step}; expected {agent.step}")
    tossed = proposal.coin < proposal.probability
    _must(proposal.nudged == tossed, "the open proposal's nudge is not what its coin says")
    fits = isinstance(proposal.reason, str) if not proposal.available else proposal.reason is None
    told = f"the open proposal's reason is {checks.brief(proposal.reason)}"
    _must(fits, f"{told}; expected one where it is not available, else none")
    _must(proposal.available or not (proposal.opened or proposal.nudged), "the open proposal is not available")
    _must(not (proposal.available and agent.steps[step].place.missing), "the open proposal lacks sensed values")
    _must(proposal.priced == agent.policy.revealer.priced, "the open proposal is of another revealer")
    why = proposal.ineligible_reason
    _must(why is None or why in WORDS[1:], f"the open proposal's ineligible_reason is {checks.brief(why)}")
    _must(proposal.eligible == (why is None), "the open proposal is eligible, or not, without its reason")
    _must(proposal.eligible or not proposal.nudged, "the open proposal nudges where no nudge is possible")
    noted = bool(agent.numbers.notes.size) and why not in UNASKED
    _must(noted == (notes is not None), "the open proposal's notes are not those of its revealer")
    agent.numbers.proposed[:] = Proposed(
        proposal.gap, proposal.price, proposal.probability, proposal.tolerance, proposal.disagreement, fresh, stale,
        standing, float(proposal.nudged), 0 if why is None else WORDS.index(why),
    )  # fmt: skip
    return proposal
