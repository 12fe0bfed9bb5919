"""The opening sentences of a plan: what the file's budget gains, for how much work, and who gets the nudges and why."""

import math
from typing import Any

import pandas as pd

from opportune.analysis.intervals import Interval
from opportune.planning.run import Plan
from opportune.problems.history import History
from opportune.study.naming import article, variable_name

ALIKE = 0.1
"""Nudge rates that differ by less than this share of the larger one count as equal."""
RARE = 0.005
"""A level at a smaller share of decisions is not mentioned."""


def number(value: float, digits: int = 2) -> str:
    """A number for readers, with `digits` significant digits."""
    if not math.isfinite(value):
        return "–"
    if value == 0.0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return "0" if float(text.replace(",", "")) == 0.0 else text.replace("-", "−")


def ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    ending = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


def count(plan: Plan, n: float) -> str:
    """A number of nudges, with the study's word for them."""
    whole = round(n)
    return f"{whole:,} {plan.settings.nudge if whole == 1 else plan.settings.nudges}"


def most_of(plan: Plan) -> str:
    """The reference of shares: the outcome at share 100%."""
    return f"the most that {plan.settings.nudges} bring here"


def best_end(plan: Plan) -> str:
    """The better of the two extremes, which is share 100%."""
    values = plan.values
    if values.always.mean() >= values.unlimited.mean():
        return f"{article(plan.settings.nudge)} at every allowed decision"
    return f"{values.main} without a limit on its budget"


def offered(plan: Plan) -> str:
    """The gain from the file's own budget, beside no limit and beside the best simple alternative."""
    offer, settings = plan.offer, plan.settings
    nudges, unit = settings.nudges, settings.unit
    gain, more = offer.gain, f"{unit} a day more than none"
    brings = f"bring {number(gain.mean)} {more}"
    if gain.mean < 0.0:
        brings = f"bring {number(-gain.mean)} {unit} a day less than none"
    hours = "" if math.isnan(offer.hours) else f", for {hours_in_words(offer.hours)} of staff"
    first = f"{offer.budget:g} {nudges if offer.budget != 1.0 else settings.nudge} per participant {brings}"
    ends = _ends(Interval(-gain.high, -gain.low) if gain.mean < 0.0 else gain)
    limit = f"unlimited {nudges} would bring {number(offer.unlimited.mean)}"
    made = ""
    if offer.made < 0.95 * offer.budget:
        made = f" On average {number(offer.made)} of them are made: hours, caps and the rule itself prevent the rest."
    doubt = "" if offer.sure else " This difference could be chance."
    rate = ""
    if offer.sure and gain.mean > 0.0 and math.isfinite(offer.per_hour):
        rate = f" An hour of staff gains {number(offer.per_hour)} {unit}."
    return f"{first}{ends}{hours}; {limit}.{doubt}{made}{rate} {_simple(plan)}"


def _simple(plan: Plan) -> str:
    """The best simple alternative at the same budget, and which of the two is ahead."""
    offer, settings = plan.offer, plan.settings
    lead = offer.lead
    text = (
        f"The best simple alternative, {settings.nudges} {offer.simple}, would bring {number(offer.simple_gain.mean)}"
    )
    if lead.low > 0.0:
        return f"{text} with the same budget."
    if lead.high < 0.0:
        return f"{text} with the same budget, which is more: consider it."
    return f"{text} with the same budget; the difference from {plan.values.main} could be chance."


def hours_in_words(hours: float) -> str:
    """Hours in words: "120 hours", "1 hour" or "less than an hour"."""
    if hours < 1.0:
        return "less than an hour"
    return "1 hour" if round(hours) == 1 else f"{round(hours):,} hours"


def _ends(found: Interval) -> str:
    """An interval's limits, as part of a sentence; empty if they are unknown."""
    if math.isnan(found.low) or math.isnan(found.high):
        return ""
    return f", {number(found.low)} to {number(found.high)}"


def who(plan: Plan) -> list[str]:
    """Who gets the nudges and why, for an ethics board: a sentence for each variable that the rule sees."""
    levels = plan.fairness.levels.merge(plan.worth, how="left", on=["variable", "level"])
    levels = levels[levels["decisions"] >= RARE]
    if levels.empty or not len(plan.fairness.counts):
        return []
    nudge, unit = plan.settings.nudge, plan.settings.unit
    first = (
        f"The rule gives {article(nudge)} where it expects fresh advice to help most, as far as budget, hours and caps "
        "allow. It sees only what is listed here; what participants report becomes known afterwards, and nothing else "
        f"about a person counts{_past(plan)}. The figures in brackets are the share of decisions with {article(nudge)} "
        f"and the gain from fresh advice there, in {unit}."
    )
    return [first, *(_of_variable(plan, str(name), rows) for name, rows in levels.groupby("variable", sort=False))]


def _past(plan: Plan) -> str:
    """The variables of the person's own past, which the rule sees too."""
    study = plan.settings.study
    past = [variable_name(study.settings, name) for name, v in study.variables.items() if isinstance(v, History)]
    return f", except the person's own past ({', '.join(past)})" if past else ""


def _of_variable(plan: Plan, name: str, rows: pd.DataFrame) -> str:
    """How often each level of a variable gets a nudge, and whether the gain from fresh advice explains that."""
    listed = "; ".join(_of_level(row) for row in rows.itertuples())
    top, bottom = rows.loc[rows["rate"].idxmax()], rows.loc[rows["rate"].idxmin()]
    if len(rows) == 1:
        return f"{name}: {listed}."
    if top["rate"] - bottom["rate"] <= ALIKE * top["rate"]:
        return f"{name} makes no difference: {listed}."
    chance = math.hypot(top["rate"] - top["low"], bottom["high"] - bottom["rate"])
    if not top["rate"] - bottom["rate"] > chance:
        return f"{name} makes no difference beyond chance: {listed}."
    nudges = plan.settings.nudges
    most = f"{name}: most {nudges} come when it is {top['level']}"
    if bottom["rate"] == 0.0:
        most += f", none when it is {bottom['level']}"
    worths = rows["worth"].dropna()
    if len(worths) > 1 and top["worth"] >= worths.max() - 1e-9:
        most += ", where fresh advice helps most"
    elif not math.isnan(top["worth"]) and not math.isnan(bottom["worth"]) and top["worth"] > bottom["worth"]:
        most += f", where it helps more than when it is {bottom['level']}"
    else:
        most += ", although fresh advice helps no more then: hours, caps or earlier stale advice decide"
    return f"{most}: {listed}."


def _of_level(row: Any) -> str:
    worth = "" if math.isnan(row.worth) else f", {number(row.worth)}"
    return f"{row.level} ({row.rate:.1%}{worth})"
