"""Revealers, recommenders and worlds that break the rules, one rule each, and one of each that keeps to them."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numba import objmode

from opportune.extend import (
    COUNT,
    Declares,
    LinearWorld,
    Numbers,
    Revealer,
    best,
    normal,
    register,
    score_blind,
    score_full,
    spent_so_far,
    step_function,
)
from opportune.recommenders import linucb
from opportune.worlds import linear

REMEMBERED = [0]


def count() -> float:
    """How often this was called in this process."""
    REMEMBERED[0] += 1
    return float(REMEMBERED[0])


@step_function
def spend(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """O = 1, whatever is left."""
    return 1.0, 0.0


@step_function
def exceed(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """A probability above 1."""
    return min(1.5, p.rule.amount[0] - spent_so_far(p)), 0.0


@step_function
def count_on(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """About every third call in this process, whoever calls, at no regular distance."""
    with objmode(calls="float64"):
        calls = count()
    if calls * 0.6180339887498949 % 1.0 > 0.33:
        return 0.0, 0.0
    return max(0.0, min(1.0, p.rule.amount[0] - spent_so_far(p))), 0.0


class State(NamedTuple):
    """What Thrifty remembers."""

    asked: Annotated[Numbers, 1, COUNT]  # how often it was asked


@step_function
def note(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """Every third step, counted where a rule may count."""
    own.state.asked[0] += 1.0
    if own.state.asked[0] % 3.0 != 0.0:
        return 0.0, 0.0
    return max(0.0, min(1.0, p.rule.amount[0] - spent_so_far(p))), 0.0


@register
@dataclass(frozen=True, kw_only=True)
class Spender(Revealer):
    """Overspends."""

    label: ClassVar[str] = "spender"
    kind: ClassVar[str] = "spender"
    consult: ClassVar[Any] = staticmethod(spend)


@register
@dataclass(frozen=True, kw_only=True)
class Exceeder(Revealer):
    """Gives no probability."""

    label: ClassVar[str] = "exceeder"
    kind: ClassVar[str] = "exceeder"
    consult: ClassVar[Any] = staticmethod(exceed)


@register
@dataclass(frozen=True, kw_only=True)
class Rememberer(Revealer):
    """Remembers in a Python global."""

    label: ClassVar[str] = "rememberer"
    kind: ClassVar[str] = "rememberer"
    consult: ClassVar[Any] = staticmethod(count_on)


@register
@dataclass(frozen=True, kw_only=True)
class Thrifty(Revealer):
    """Keeps to the rules: a nudge at every third step that is asked about."""

    label: ClassVar[str] = "thrifty"
    kind: ClassVar[str] = "thrifty"
    declares: ClassVar[Declares] = Declares(state=State)
    consult: ClassVar[Any] = staticmethod(note)


@step_function
def peek(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """The blind action by what the revealer knows now."""
    score_blind(p, moment.stratum, p.model.radius[0])
    return best(p.sizes, p.scratch.ucb)[1]


@step_function
def beyond(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """One action more than there are, at a reveal."""
    score_full(p, moment, p.model.radius[0])
    return best(p.sizes, p.scratch.ucb)[1] + 1


@register
@dataclass(frozen=True, kw_only=True)
class Peeker(linucb.LinUCB):
    """Looks at the fresh model."""

    kind: ClassVar[str] = "peeker"
    act_blind: ClassVar[Any] = staticmethod(peek)


@register
@dataclass(frozen=True, kw_only=True)
class Strayer(linucb.LinUCB):
    """Recommends what does not exist."""

    kind: ClassVar[str] = "strayer"
    act_informed: ClassVar[Any] = staticmethod(beyond)


@step_function
def gamble(p, own, draws, moment, action, noise):  # type: ignore[no-untyped-def]
    """A reward by numpy.random."""
    _, outcome, best_outcome = linear.respond(p, own, draws, moment, action, noise)
    return outcome + own.settings.noise_sd[0] * normal(np.random.random()), outcome, best_outcome  # noqa: NPY002


@step_function
def always_the_same(p, own, draws, step, arrival):  # type: ignore[no-untyped-def]
    """The same arrivals in every stream."""
    return linear.arrive(p, own, draws, step, (step * 0.37) % 1.0)


@step_function
def without_noise(p, own, draws, moment, action, noise):  # type: ignore[no-untyped-def]
    """The same rewards in every stream."""
    _, outcome, best_outcome = linear.respond(p, own, draws, moment, action, noise)
    return outcome, outcome, best_outcome


@register
class Gambler(LinearWorld):
    """Draws from numpy.random."""

    respond: ClassVar[Any] = staticmethod(gamble)


@register
class Treadmill(LinearWorld):
    """Every stream is the same."""

    arrive: ClassVar[Any] = staticmethod(always_the_same)
    respond: ClassVar[Any] = staticmethod(without_noise)
