"""What will happen in a study, in words: when nudges are allowed, what staff can handle, what is forbidden or random.

Each function yields sentences for a coordinator; `opportune check` prints them.
"""

import datetime as dt
import itertools
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opportune.engine.declared import PUBLIC_PART, WHOLE
from opportune.errors import InputError
from opportune.problems.variables import WEEKDAYS
from opportune.revealers import Pace
from opportune.study.arms import share_nudged
from opportune.study.arrivals import decisions_per_day
from opportune.study.calendar import instant
from opportune.study.condition_words import condition_in_words
from opportune.study.naming import article, value_name, variable_name
from opportune.study.sample import Sample, sample_of
from opportune.study.serving import live
from opportune.study.timetable import begin_dates, calendar_of, decision_minutes

if TYPE_CHECKING:
    from opportune.study.build import Study

FEW = 20
"""With fewer participants, intervals are unreliable."""
ALWAYS = 0.9995
"""Shares of moments above this are shown as all moments."""
CLIPPED = 0.05
"""If more rewards than this share are clipped, effects look smaller than they are."""


def outlook(study: "Study") -> list[str]:
    """Sentences on what will happen."""
    parts = (_enrolment, _arms, _allowed, _staff, _forbidden, _randomised, _clipped)
    return [sentence for part in parts for sentence in part(study)]


def _enrolment(study: "Study") -> Iterator[str]:
    """When the first participants begin and the last ones finish."""
    settings = study.settings
    if settings.participants.first_day is None:
        return
    first = begin_dates(settings, 1)[0]
    yield f"The first participants begin on {_day(first)}, the last finish on {_day(_last_day(study))}."


def _last_day(study: "Study") -> dt.date:
    """The last day of the last participant."""
    settings = study.settings
    days = -(-settings.study.horizon // decisions_per_day(settings))
    return begin_dates(settings, settings.participants.planned or 1)[-1] + dt.timedelta(days=days - 1)


def _arms(study: "Study") -> Iterator[str]:
    """How participants are randomised to arms."""
    arms = study.settings.arms
    if arms is None:
        return
    shares = " : ".join(str(arm.share) for arm in arms.named.values())
    names = " and ".join(arms.named) if len(arms.named) == 2 else ", ".join(arms.named)
    strata = f", separately by {' and '.join(arms.strata)}" if arms.strata else ""
    yield f"Participants are randomised {shares} to {names}, in permuted blocks of {arms.block_size}{strata}."


def open_places(study: "Study", monday: dt.date | None = None) -> NDArray[np.bool_]:
    """Whether a nudge is allowed at each decision point of a week, [7 days from Monday, points].

    By default it is the study's first week without holidays.
    """
    settings = study.settings
    calendar, zone = calendar_of(settings), settings.schedule.timezone
    monday = next(_mondays(study)) if monday is None else monday
    dates = [monday + dt.timedelta(days=day) for day in range(7)]
    times = decision_minutes(settings)
    return np.array([[not calendar.at(instant(date, m, zone), zone).closed for m in times] for date in dates])


def _mondays(study: "Study") -> Iterator[dt.date]:
    """The Mondays of all weeks without holidays, beginning with the study's first week."""
    monday = begin_dates(study.settings, 1)[0]
    monday -= dt.timedelta(days=monday.weekday())
    holidays = calendar_of(study.settings).holidays
    while True:
        if not any(monday <= holiday < monday + dt.timedelta(days=7) for holiday in holidays):
            yield monday
        monday += dt.timedelta(days=7)


def _allowed(study: "Study") -> Iterator[str]:
    """The number of points a week at which a nudge is allowed, and the limits for one person."""
    settings, nudge = study.settings, study.settings.nudge
    if not calendar_of(settings).always_open:
        (_, is_open), *others = weeks = _weeks(study)
        times = decision_minutes(settings)
        total = int(is_open.sum())
        at = f"{total} of {is_open.size} decision points a week"
        where = f": {_places(is_open, times)}." if total else ", so none is ever made."
        yield f"{article(nudge.name, capital=True)} is allowed at {at}{where}"
        for monday, places in others:
            when = f"From {_day(monday)} on, as clocks change on other days in {settings.staff.timezone},"
            where = f": {_places(places, times)}" if places.any() else ""
            yield f"{when} it is {int(places.sum())} of {places.size}{where}."
        is_open = np.any([places for _, places in weeks], axis=0)
        total = int(is_open.sum())
        never = [_clock(m) for i, m in enumerate(times) if not is_open[:, i].any()]
        if never and total:
            yield f"No {nudge.name} is ever allowed at {' or '.join(never)}: outside staff hours, or in quiet hours."
        idle = [day for day in range(7) if calendar_of(settings).hours_on(day) and not is_open[day].any()]
        if idle and total and settings.staff.hours is not None:
            days = _weekdays(np.isin(np.arange(7), idle))
            made = f"no decision point lets {article(nudge.name)} be made then"
            yield f"Staff hours on {days} are not used: {made}."
    if settings.study.run_in_days:
        how = "all allowed actions are equally likely" if settings.study.run_in == "equal" else "advice is the fallback"
        run_in = settings.study.run_in_days
        first = "On the first day" if run_in == 1 else f"In the first {run_in} days"
        yield f"{first} there are no {nudge.several}; {how}."
    caps = [f"{nudge.per_week} in any seven days"] if nudge.per_week else []
    caps += [f"one in {nudge.least_hours_between:g} hours"] if nudge.least_hours_between else []
    if caps:
        yield f"One person gets at most {' and '.join(caps)}."


def _weeks(study: "Study") -> list[tuple[dt.date, NDArray[np.bool_]]]:
    """The first Monday with its week's open points, and each Monday from which they differ.

    They can differ if staff are in another time zone, whose clocks change on other days.
    """
    settings = study.settings
    mondays = _mondays(study)
    first = next(mondays)
    found = [(first, open_places(study, first))]
    if settings.staff.timezone not in {None, settings.schedule.timezone}:
        for monday in itertools.takewhile(lambda monday: monday <= _last_day(study), mondays):
            if not np.array_equal(places := open_places(study, monday), found[-1][1]):
                found.append((monday, places))
    return found


def _places(is_open: NDArray[np.bool_], times: tuple[int, ...]) -> str:
    """The decision points of a week at which a nudge is allowed, in words."""
    return "; ".join(f"{_clock(m)} on {_weekdays(is_open[:, i])}" for i, m in enumerate(times) if is_open[:, i].any())


def _staff(study: "Study") -> Iterator[str]:
    """The number of participants that staff can serve."""
    settings, nudge = study.settings, study.settings.nudge
    per_day = settings.staff.per_day
    budgets = [settings.serve.budget] if settings.serve.budget else settings.study.budgets
    if per_day is None or not budgets:
        return
    days = settings.study.horizon / decisions_per_day(settings)
    spread = settings.participants.enrolment_days
    working = int(open_places(study).any(axis=1).sum())
    weekly = per_day * working
    for budget in budgets:
        each = budget * 7.0 / days
        people = math.floor(weekly / each)
        nudged = round((settings.participants.planned or 0) * share_nudged(settings) * min(1.0, days / spread))
        enough = people >= nudged
        text = f"Staff can make {weekly} {nudge.several} a week ({per_day} a day on {working} days)"
        yield f"{text}: with {budget:g} per person that is enough for {people:,} people at a time" + (
            "." if enough else f", fewer than the {nudged:,} who are planned to get them together."
        )


def _forbidden(study: "Study") -> Iterator[str]:
    """When and how often actions are forbidden, and how often staff must respond at once."""
    settings = study.settings
    forbidden = {name: table for name, table in settings.actions.items() if table.never_if is not None}
    escalated = [name for name, table in settings.variables.items() if table.escalate]
    sample = _sample(study) if forbidden or escalated else None
    for name, table in forbidden.items():
        text = f"{_action(study, name)} is never recommended where {condition_in_words(settings, table.never_if or '')}"
        if sample is None:
            yield f"{text}."
            continue
        a = settings.study.actions.index(name)
        whole, blind = (float(sample.weights @ sample.forbidden[view][:, a]) for view in (WHOLE, PUBLIC_PART))
        text += f", at about {whole:.0%} of decision points"
        if table.when_unknown == "forbid":
            text += f"; between contacts, when not all of this is known, it is forbidden at {blind:.0%}"
            text += ", so it is recommended only right after a contact" if blind > ALWAYS > whole else ""
        elif table.when_unknown == "allow":
            text += f"; between contacts it is forbidden at {blind:.0%}, and may be recommended where this is unknown"
            sensed = [variable_name(settings, found) for found in _sensed(study, table.never_if or "")]
            text += f" ({' and '.join(sensed)}, sensed by the app, counts as unknown there)" if sensed else ""
        yield f"{text}."
    if forbidden:
        yield f"The fallback, {_action(study, study.fallback)}, is allowed at every moment."
    if sample is not None:
        for name in escalated:
            yield from _escalated(study, sample, name)


def _sensed(study: "Study", condition: str) -> list[str]:
    """The sensed variables in a condition, which advice between contacts ignores."""
    words = re.findall(r"[^\W\d]\w*", condition)
    tables = study.settings.variables.items()
    return [name for name, v in tables if name in words and v.visibility == "sensed" and v.schedule is None]


def _escalated(study: "Study", sample: Sample, name: str) -> Iterator[str]:
    """How often staff must respond to a level at once, for all participants together."""
    settings, table = study.settings, study.settings.variables[name]
    if name not in sample.levels or not settings.participants.planned:
        return
    weekly = 7.0 * decisions_per_day(settings) * settings.participants.planned
    for level, instruction in table.escalate.items():
        number = [str(known) for known in table.known_levels].index(level)
        often = weekly * float(sample.weights @ (sample.levels[name] == number))
        shown = f"{variable_name(settings, name)} {value_name(settings, name, level)}"
        yield (
            f"{shown} is shown to staff at once (“{instruction}”): about {often:.0f} times a week with "
            f"{settings.participants.planned:,} participants at a time."
        )


def _action(study: "Study", name: str) -> str:
    """An action's label in quotes."""
    table = study.settings.actions.get(name)
    return f"“{(table.label if table is not None else None) or name}”"


def _sample(study: "Study") -> Sample | None:
    """A sample of moments; None if the file does not say how they are drawn."""
    try:
        return sample_of(study)
    except InputError:
        return None


def _randomised(study: "Study") -> Iterator[str]:
    """Which decisions are randomised live, so that their effects can be estimated."""
    try:
        policy = live(study).policy
    except InputError:
        return  # `needs` reports what serving lacks
    nudge = study.settings.nudge
    if policy.floor:
        yield f"Every allowed action has a probability of at least {policy.floor:.3g}: effects can be estimated."
    elif policy.recommender.kind != "random":
        yield "WARNING: actions are not randomised, so their effects cannot be estimated ([probabilities] actions)."
    revealer = policy.revealer
    if isinstance(revealer, Pace) and revealer.by_candidates:
        text = f"Where {article(nudge.name)} helps most, or nearly so, the probabilities of making and not making it"
        yield f"{text} are at least {revealer.least:g}: its effect there can be estimated."
    elif revealer.randomised:
        yield (
            f"A coin is mixed in: the effect of {article(nudge.name)} can be estimated where the probability it leaves "
            "is neither near 0 nor near 1. Use randomise = 'candidates' to keep it away from both."
        )
    elif policy.budget is not None:
        how = "[probabilities] nudge" if isinstance(revealer, Pace) else "kind = 'PACE' with [probabilities] nudge"
        yield f"WARNING: {nudge.several} are not randomised, so their effect cannot be estimated ({how})."
    yield from _few(study)


def _few(study: "Study") -> Iterator[str]:
    """A warning if the study, or one of its arms, has few participants."""
    planned, arms = study.settings.participants.planned, study.settings.arms
    if planned is None:
        return
    reason = f"with fewer than {FEW}, intervals are unreliable."
    if planned < FEW:
        yield f"WARNING: {planned} participants are few: {reason}"
    elif arms is not None:
        shares = sum(arm.share for arm in arms.named.values())
        for name, arm in arms.named.items():
            if (size := round(planned * arm.share / shares)) < FEW:
                yield f"WARNING: {size} participants in “{arm.label or name}” are few: {reason}"


def _clipped(study: "Study") -> Iterator[str]:
    """How often rewards are clipped, under the assumed effects and with all allowed actions equally likely."""
    reward = study.settings.reward
    if not study.has_truth or (reward.bounds is None and reward.family == "gaussian"):
        return
    if (sample := _sample(study)) is None:
        return
    means = sample.features @ np.array([_middle(effect) for effect in study.effects.values()])
    sd = study.settings.world.noise_sd or reward.noise_sd
    low, high = reward.bounds or (-math.inf, math.inf)
    if reward.family == "binary":
        beyond = ((means < 0.0) | (means > 1.0)).astype(np.float64)
        text = "of rewards have a mean below 0 or above 1, which is clipped as it is a probability"
    elif reward.family == "count":
        low = max(low, 0.0)
        beyond = _below(low - 0.5, means, sd) + 1.0 - _below(high + 0.5, means, sd)  # counts are rounded
        where = f"below {low:g}" if math.isinf(high) else f"outside {low:g} to {high:g}"
        text = f"of counts would lie {where}, and are clipped"
    else:
        beyond = _below(low, means, sd) + 1.0 - _below(high, means, sd)
        text = f"of rewards lie beyond the bounds, [{low:g}, {high:g}], and are clipped"
    allowed = ~sample.forbidden[WHOLE]
    share = float(sample.weights @ ((beyond * allowed).sum(axis=1) / allowed.sum(axis=1)))
    warning = "WARNING: " if share > CLIPPED else ""
    tail = "; this makes effects look smaller than they are" if share > CLIPPED else ""
    yield f"{warning}About {share:.1%} {text}{tail}."


def _below(limit: float, means: Any, sd: float) -> Any:
    """The probability that a reward is below a limit."""
    return 0.5 * np.vectorize(math.erfc)((means - limit) / (sd * math.sqrt(2.0)))


def _middle(effect: Any) -> float:
    """The median of an effect."""
    if effect.value is not None:
        return float(effect.value)
    return float(effect.mean) if effect.mean is not None else 0.5 * float(effect.low + effect.high)


def _day(date: dt.date) -> str:
    """A date in full, in English whatever the locale."""
    month = (
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
        "December",
    )[date.month - 1]  # fmt: skip
    return f"{WEEKDAYS[date.weekday()]}, {date.day} {month} {date.year}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _weekdays(is_open: NDArray[np.bool_]) -> str:
    """Days of the week, in words: "every day", "weekdays", "Monday and Saturday"."""
    days = np.flatnonzero(is_open).tolist()
    if len(days) == 7:
        return "every day"
    if days == [0, 1, 2, 3, 4]:
        return "weekdays"
    names = [WEEKDAYS[day] for day in days]
    if days[:5] == [0, 1, 2, 3, 4]:
        names = ["weekdays", *names[5:]]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
