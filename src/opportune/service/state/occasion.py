"""The occasion of a nudge: why this moment, and what would have changed that, computed from the decision itself.

With m the model's present means, q the public and sensed part of the moment, z its public part and b(z) the action that
is best by z alone, a nudge is worth

    D(q) = max_a m(sen(q, a)) - m(sen(q, b(z)))

to the participant now. The *contribution* of a sensed variable is D(q) less D with that variable at its blind mean:
what the recommender would assume of it. A variable is named if its contribution is positive, if some value of it would
change the advice, and if the rule itself would rank the moment lower with the variable at its usual value. The rule is
asked again for that, as it was before the decision (`state.whatif`).
"""

import itertools
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median_low
from typing import Any, Literal

import msgspec
import numpy as np

from opportune.algorithm.model import TIE
from opportune.engine.declared import CERTAIN
from opportune.live.agent import Agent
from opportune.live.decision import Proposal
from opportune.live.point import LEARNED, Step
from opportune.problems.finite import Problem
from opportune.problems.settings import Located
from opportune.problems.variables import bounds_of, levels_of
from opportune.service.state.whatif import Floats, WhatIf

LEAST_HISTORY = 4
"""From so many earlier values on, a participant's own tell what is usual."""
MOST_HISTORY = 14
MOST_NAMED = 2
MOST_ANSWERS = 48
"""Different answers that are played through; of more, some."""
DRAWS = 8
"""How often each is, where actions are drawn or earlier reports are to come."""
MOST_SEALED = 30
"""Earlier steps, the latest, that a reveal is taken to uncover."""
GRID = 9
"""Values at which a number is tried."""
SURE = 1e-9
"""A probability above this is one."""

Usual = Literal["time", "own", "study"]
"""Whether what is usual is that at this time of day, at any time, or what the study expects of everybody."""


class Named(msgspec.Struct, frozen=True):
    """A sensed variable that speaks for a nudge now."""

    variable: str
    value: int | float | str | None
    usual: int | float | str | None
    by: Usual
    contribution: float


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """Why a nudge was worth making, and what will probably come of it."""

    variables: list[Named]
    """Those named, the largest contribution first."""
    by_context: bool
    """Whether the rule looks at what is sensed at all."""
    together: bool
    """None of them alone speaks for a nudge, but all of them together do."""
    debt: bool
    """What was learned since the last contact counts for more than what is sensed."""
    overdue: bool
    """The rule wants to hear what only the participant can tell."""
    present: str
    """The action that the app shows meanwhile."""
    instead: str
    """What will probably be advised once the participant is reached."""
    sure: float
    """How probable that is, over what the participant may answer."""
    better: bool
    """Whether that is expected to help more than the present action."""
    chance: bool
    """The coin alone has made this nudge: the rule would have waited."""
    unless_usual: bool
    """With the first variable named at its usual value, the rule would have waited."""
    least_left: int | None
    """With fewer nudges left than this, the rule would have waited."""
    gain: float
    """D(q)."""


def occasion_of(agent: Agent, made: Proposal, step: Step) -> Occasion:
    """Why an open nudge was made; the agent must have kept what was before (`agent.explains`)."""
    then = WhatIf(agent, step)
    here = then.place()
    asked = then.ask(here)
    best = _best_blind(then, here)
    gain = _gain(then, here, then.means(here), best)
    owed = _debt(agent, made, gain)
    chance = asked.alone <= SURE
    named: list[Named] = []
    for name, levels in _sensed(agent):
        found = _contributes(then, here, name, levels, gain, best, asked.worth)
        if found is not None:
            named.append(found)
    named.sort(key=lambda one: -one.contribution)
    del named[MOST_NAMED:]
    instead, sure = _advised(then)
    means, actions = then.means(here), agent.problem.action_names
    unless = False
    if named and not chance:
        unless = then.ask(then.place(**{named[0].variable: named[0].usual})).alone <= SURE
    return Occasion(
        variables=named, by_context=_by_context(agent), together=not named and gain > TIE and asked.worth > TIE,
        debt=owed, overdue=_overdue(agent, made), present=made.action, instead=instead, sure=sure,
        better=bool(means[actions.index(instead)] > means[actions.index(made.action)] + TIE), chance=chance,
        unless_usual=unless, least_left=None if chance else _least_left(then, here), gain=float(gain),
    )  # fmt: skip


def _by_context(agent: Agent) -> bool:
    """Whether the rule goes by what is sensed."""
    revealer = agent.policy.revealer
    return revealer.priced or hasattr(_notes(agent), "worth")


def _notes(agent: Agent) -> Any:
    made, declared = agent.open_proposal, agent.policy.revealer.declares.notes
    return None if made is None or made.notes is None else declared(*made.notes)


def _overdue(agent: Agent, made: Proposal) -> bool:
    """Whether PACE asks because the last report is long ago."""
    from opportune.revealers.ranking import BY_GRID  # noqa: PLC0415  (a rule among others)

    return made.notes is not None and int(getattr(_notes(agent), "cause", -1)) == BY_GRID


def _debt(agent: Agent, made: Proposal, gain: float) -> bool:
    """Whether acting on old advice counts for more than the moment's own gain."""
    notes = _notes(agent)
    if notes is not None and hasattr(notes, "debt"):
        return bool(notes.debt > TIE and notes.debt > notes.worth - notes.debt)
    alone = max(0.0, made.gap)
    return made.fresh_action != made.stale_action and made.probability - alone > max(alone, TIE)


def _best_blind(then: WhatIf, here: Located) -> int:
    """b(z)."""
    means = np.where(then.allowed(here, blind=True), then.means(here, blind=True), -np.inf)
    return int(np.argmax(means >= means.max() - TIE))


def _gain(then: WhatIf, here: Located, means: Floats, best: int) -> float:
    """D, by these means; what is allowed is what the moment allows."""
    return float(np.where(then.allowed(here), means, -np.inf).max() - means[best])


def _sensed(agent: Agent) -> list[tuple[str, list[Any]]]:
    """Sensed variables, each with values that it may have."""
    problem, found = agent.problem, list[tuple[str, list[Any]]]()
    for name, variable in problem.variables.items():
        if problem.visibility[name] != "sensed" or name in problem.schedule.variables:
            continue
        levels, bounds = levels_of(variable), bounds_of(variable)
        if levels is None and bounds is not None:
            levels = tuple(np.linspace(bounds.low, bounds.high, GRID).tolist())
        if levels is not None and len(levels) > 1:
            found.append((name, list(levels)))
    return found


def _contributes(
    then: WhatIf, here: Located, name: str, levels: Sequence[Any], gain: float, best: int, worth: float
) -> Named | None:
    """What a variable contributes; None where it is not to be named."""
    value = then.given[name]
    usual, by = _usual(then, name, levels)
    if usual == value or gain <= TIE:
        return None
    places = [then.place(**{name: level}) for level in levels]
    rows = np.array([then.means(place) for place in places])
    weights = _weights(then, name, levels, places)
    contribution = gain - _gain(then, here, weights @ rows, best)
    if contribution <= TIE:
        return None
    rows = np.where([then.allowed(place) for place in places], rows, -np.inf)
    if np.ptp(np.argmax(rows >= rows.max(axis=1, keepdims=True) - TIE, axis=1)) == 0:
        return None  # whatever its value, the advice is the same
    if then.ask(then.place(**{name: usual})).worth >= worth - TIE:
        return None
    return Named(name, value, usual, by, float(contribution))


def _earlier(then: WhatIf, name: str) -> Iterator[tuple[int, Any]]:
    """The participant's earlier values of a variable by step, the latest first."""
    steps = then.agent.steps
    for number in range(then.step.step - 1, 0, -1):
        given = steps[number].given if number in steps else None
        value = given.get(name) if isinstance(given, dict) else None
        if value is not None:
            yield number, value


def _usual(then: WhatIf, name: str, levels: Sequence[Any]) -> tuple[Any, Usual]:
    """What is usual of a variable: for this person at this time of day, at any time, or for everybody."""
    per_day = then.problem.schedule.decisions_per_day
    at_this_time = (value for number, value in _earlier(then, name) if (then.step.step - number) % per_day == 0)
    if per_day > 1 and len(same := list(itertools.islice(at_this_time, MOST_HISTORY))) >= LEAST_HISTORY:
        return _middle(same), "time"
    own = [value for _, value in itertools.islice(_earlier(then, name), MOST_HISTORY)]
    if len(own) >= LEAST_HISTORY:
        return _middle(own), "own"
    if isinstance(then.problem, Problem):
        places = [then.place(**{name: level}) for level in levels]
        return levels[int(np.argmax(_weights(then, name, levels, places)))], "study"
    return then.problem.middle_values()[name], "study"


def _middle(values: Sequence[Any]) -> Any:
    """The median of numbers, the most frequent of words."""
    if all(isinstance(value, int | float) for value in values):
        return median_low(values)
    return Counter(values).most_common(1)[0][0]


def _weights(then: WhatIf, name: str, levels: Sequence[Any], places: Sequence[Located]) -> Floats:
    """How probable each level is, the rest being as it is; by the participant's own earlier values if nobody knows."""
    problem = then.problem
    if isinstance(problem, Problem) and problem.context_probs is not None:
        senses = np.bincount(problem.sense_of, problem.context_probs, minlength=problem.senses)
        found: Floats = np.asarray(senses[[place.sense for place in places]], dtype=np.float64)
    else:
        stratum = then.step.place.stratum
        steps = then.agent.steps
        seen = [value for number, value in _earlier(then, name) if steps[number].place.stratum == stratum]
        found = np.zeros(len(levels))
        for value in seen:
            found[_nearest(levels, value)] += 1.0
    total = found.sum()
    return np.asarray(found / total if total > 0 else np.full(len(levels), 1.0 / len(levels)))


def _nearest(levels: Sequence[Any], value: Any) -> int:
    if value in levels:
        return list(levels).index(value)
    return int(np.argmin([abs(level - value) for level in levels]))


def _advised(then: WhatIf) -> tuple[str, float]:
    """What will probably be advised once the participant is reached, and how probable that is.

    The answers are not known, nor what the participant reported of earlier steps and no reveal has uncovered yet: both
    are played through as they may be.
    """
    agent, recommender = then.agent, then.agent.policy.recommender
    sealed = [agent.steps[number] for number in sorted(agent.pending.sealed)]
    sealed = [step for step in sealed if step.status == LEARNED and step.step < then.step.step]
    draws = 1 if recommender.chances == CERTAIN and not recommender.randomised and not sealed else DRAWS
    votes: dict[str, float] = dict.fromkeys(then.problem.action_names, 0.0)
    earlier = [(step, *_answers(then.problem, step)) for step in sealed[-MOST_SEALED:]]
    below = [np.cumsum(odds).tolist() for _, _, odds in earlier]
    places, weights = _answers(then.problem, then.step)
    for draw in range(draws):
        uncovered = []
        if earlier:
            drawn = np.random.default_rng((then.step.step, draw)).random(len(earlier)).tolist()
            found = [min(bisect(limits, u), len(limits) - 1) for limits, u in zip(below, drawn, strict=True)]
            uncovered = [(step, those[i]) for (step, those, _), i in zip(earlier, found, strict=True)]
        for place, weight in zip(places, weights.tolist(), strict=True):
            votes[then.advised(place, draw, uncovered)] += weight / draws
    action = max(votes, key=lambda name: votes[name])
    return action, min(1.0, votes[action])


def _answers(problem: Any, step: Step) -> tuple[list[Located], Floats]:
    """Where a moment may turn out to be, by what the participant may answer, and how probable each is."""
    given = step.given if isinstance(step.given, dict) else problem.levels(problem.index(step.given))
    names = [name for name, seen in problem.visibility.items() if seen == "reported"]
    choices = []
    for name in names:
        levels, bounds = levels_of(problem.variables[name]), bounds_of(problem.variables[name])
        if levels is None and bounds is not None:
            levels = tuple((bounds.low + (bounds.high - bounds.low) * (np.arange(3) + 0.5) / 3).tolist())
        choices.append(levels or (None,))
    combinations = itertools.product(*choices)
    places = [problem.locate({**given, **dict(zip(names, chosen, strict=True))}, step.step) for chosen in combinations]
    weights = np.ones(len(places))
    if isinstance(problem, Problem) and problem.context_probs is not None:
        known = problem.context_probs[[place.context for place in places]]
        weights = known if known.sum() > 0 else weights
    if len(places) > MOST_ANSWERS:
        kept = np.argsort(-weights, kind="stable")[:MOST_ANSWERS].tolist()
        places, weights = [places[i] for i in kept], weights[kept]
    return places, np.asarray(weights / weights.sum())


def _least_left(then: WhatIf, here: Located) -> int | None:
    """The least number of nudges left with which the rule would still have made this one; None if one would do."""
    left = then.left
    if not np.isfinite(left):
        return None
    few, enough = 0, int(left)  # with `enough` it is made
    while enough - few > 1:
        middle = (few + enough) // 2
        if then.ask(here, fewer=int(left) - middle).alone > SURE:
            enough = middle
        else:
            few = middle
    return enough if enough > 1 else None
