"""The plan in words: the closing sentence, the recommendation, the assumptions, the methods."""

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from opportune.analysis.intervals import Interval, interval
from opportune.planning.budget import shares
from opportune.planning.cohorts import MOST_PEOPLE, cohorts_of
from opportune.planning.phrases import best_end, count, most_of, number, offered, ordinal
from opportune.planning.power import BARE, FEWEST, MOST, WANTED
from opportune.planning.run import Plan
from opportune.planning.settings import PARTICIPANTS, Settings
from opportune.study.naming import article
from opportune.study.rates import rate_in_words

LEVEL_OF = re.compile(r"(?:action|arm)\[([^\]]*)\]")
"""The name of a contrast of actions or arms in the analysis."""
FLAT = 0.02
"""Shares that differ by less count as nearly equal."""


def sentence(plan: Plan) -> str:
    """The plan in a few plain sentences: the gain from the file's budget, then how many nudges are worth it."""
    work = plan.workload.work
    busy = f"Expect {count(plan, work.usual)} on a usual day and {round(work.busy):,} on the busiest day in twenty."
    return f"{offered(plan)} {busy} {worth_it(plan)}"


def worth_it(plan: Plan) -> str:
    """How many nudges reach the target, and the gain from one more."""
    least, settings = plan.least, plan.settings
    budget = least.budget
    if not least.useful:
        begin = ""
        if plan.offer.sure and plan.offer.gain.mean > 0.0:
            begin = f"The share of a number of {settings.nudges} is undefined: "
        one = f"{begin}{most_of(plan)}"
        return (
            f"{one[:1].upper()}{one[1:]} cannot be told from 0: the outcome per day is "
            f"{number(float(plan.values.never.mean()), 3)} {settings.unit} without any, "
            f"{number(float(plan.values.always.mean()), 3)} with one wherever one is allowed, and "
            f"{number(float(plan.values.unlimited.mean()), 3)} with {plan.values.main} without a limit on its budget."
        )
    whole = count(plan, budget * settings.people).split(" ")[0]
    each = f"{count(plan, budget)} per participant ({whole} in all)"
    more = f"the {ordinal(budget + 1)} {settings.nudge} adds {number(plan.one_more.mean)} {settings.unit} per day"
    if math.isnan(plan.one_more.mean):
        more = "there are no further decisions"
    if least.reached:
        return f"{each} bring {settings.target:.0%} of {most_of(plan)}; {more}."
    return (
        f"Under {plan.values.main} no number of {settings.nudges} brings {settings.target:.0%} of {most_of(plan)} "
        f"({best_end(plan)}); at most it reaches {least.most:.0%}. {each} bring {settings.target:.0%} of that; {more}."
    )


def recommendation(plan: Plan) -> list[str]:
    """What a principal investigator should know first, one or two sentences each."""
    settings, least = plan.settings, plan.least
    found = [sentence(plan)]
    if least.useful:
        low, high = least.low, least.high
        upper = f"{round(high):,}" if math.isfinite(high) else f"more than {settings.horizon:,}"
        found.append(
            f"Another cohort of {settings.participants:,} participants with effects drawn from the same distributions "
            f"might need {math.ceil(low - 1e-9):,} to {upper} {settings.nudges} each for the same (95% "
            f"interval). Taken one by one, eight in ten participants need {number(least.drawn_low)} to "
            f"{number(least.drawn_high)}."
        )
        found.append(_half(plan))
        if not least.reached:
            found.append(_limit(plan))
        found.append(_best(plan))
        found.append(_unsure(plan))
        found.append(_moves(plan))
    return [text for text in (*found, learned(plan)) if text]


def _half(plan: Plan) -> str:
    """The share of half the budget, interpolated between budgets: is the target worth it?"""
    curve = plan.values.outcome[plan.values.main]
    budgets = sorted(curve)
    never, end = float(plan.values.never.mean()), float(plan.values.most.mean())
    reached = [float(shares(curve[b].mean(), never, end)) for b in budgets]
    half = max(1, round(plan.least.budget / 2))
    whole = float(np.interp(plan.least.budget, budgets, reached))
    near = float(np.interp(half, budgets, reached)) >= whole - FLAT
    flat = " The curve is nearly flat in between: the smaller number may be the better one." if near else ""
    return (
        f"Half as many, {count(plan, half)}, would bring {float(np.interp(half, budgets, reached)):.0%} of "
        f"{most_of(plan)}, where {plan.least.budget:,} bring {whole:.0%}.{flat}"
    )


def _limit(plan: Plan) -> str:
    """Why no budget reaches the target, and that a larger one would not help."""
    settings, main = plan.settings, plan.values.main
    most = float(plan.values.nudges[main][float(settings.horizon)].mean())
    restraint = settings.study.settings.policies[settings.main].rule.restraint
    why = f": {restraint.format(nudges=settings.nudges)}" if restraint else ""
    return (
        f"Without a limit on its budget, {main} makes about {number(most)} {settings.nudges} each in "
        f"{settings.horizon:,} decisions{why}. The budget is not what holds the result back."
    )


def _best(plan: Plan) -> str:
    """Which of the file's policies does best at the same budget, and by how much."""
    values, settings = plan.values, plan.settings
    budgets = [b for b in settings.budgets if b > 0.0]
    if len(values.outcome) < 2:
        return ""
    ranked = {b: sorted(values.outcome, key=lambda name: -float(values.outcome[name][b].mean())) for b in budgets}
    near = min(budgets, key=lambda b: abs(b - plan.settings.proposed))
    first, second = ranked[near][:2]
    lead = interval(values.outcome[first][near] - values.outcome[second][near])
    always = {b: names[0] for b, names in ranked.items()}
    where = "at every budget that was tried"
    if len(set(always.values())) > 1:
        others = ", ".join(f"{name} with {b:g}" for b, name in always.items() if name != first)
        where = f"with {near:g} {settings.nudges} each ({others})"
    by = f"{number(lead.mean)} {settings.unit} per day" + _ends(lead)
    text = f"Of the file’s policies {first} does best {where}; with {near:g} it is {by} ahead of {second}."
    if first == values.main:
        return text
    gain = interval(values.outcome[first][near] - values.outcome[values.main][near])
    less = f"{number(gain.mean)} {settings.unit} per day less{_ends(gain)}"
    surely = gain.low > 0.0
    return f"{text} {values.main}, the plan’s policy, brings {less}" + (f": consider {first}." if surely else ".")


def _ends(found: Interval) -> str:
    """An interval's limits in brackets; empty if they are unknown."""
    if math.isnan(found.low) or math.isnan(found.high):
        return ""
    return f" (95% {number(found.low)} to {number(found.high)})"


def _unsure(plan: Plan) -> str:
    """How far the answer moves with the uncertainty of pilot data."""
    if plan.unsure.empty:
        return ""
    found = plan.unsure.set_index("measure")
    low, high = (float(found.loc["least", end]) for end in ("low", "high"))
    upper = f"{math.ceil(high):,}" if math.isfinite(high) else f"more than {plan.settings.horizon:,}"
    lower = f"{math.ceil(low):,}" if math.isfinite(low) else upper
    return (
        "The means of effects are themselves uncertain (se in the file). In nine of ten draws of these means, "
        f"{lower} to {upper} {plan.settings.nudges} would be needed for the same share, and "
        f"{plan.least.budget:,} bring {_share(found.loc['share', 'low'])} to {_share(found.loc['share', 'high'])}."
    )


def _moves(plan: Plan) -> str:
    table = plan.robustness.iloc[1:]
    if table.empty:
        return "No assumption was changed."
    worst = table.loc[table["moves"].idxmax()]
    least = worst["least"]
    need = f"no number of {plan.settings.nudges} would be enough"
    if math.isfinite(least):
        need = f"{count(plan, math.ceil(least))} would be needed"
    return (
        f"Of the assumptions that were changed one at a time, “{worst['assumption']}” moves the answer most: "
        f"{need}, and "
        f"{count(plan, plan.least.budget)} would bring {_share(worst['share'])} instead of "
        f"{_share(plan.robustness.iloc[0]['share'])} (by smaller simulations, in which chance counts for more)."
    )


def _share(share: float) -> str:
    """A share, or a phrase for an undefined share because nudges bring nothing."""
    return "nothing that can be told from 0" if not math.isfinite(share) else f"{share:.0%}"


def learned(plan: Plan) -> str:
    """What the study as planned can show, what it cannot, and what randomising would change."""
    table = plan.power.table
    n, main = plan.settings.participants, plan.values.main
    here = table[(table["budget"] == plan.budget) & (table["participants"] == n)]
    own = here[here["design"] == main]
    able = own[own["power"] >= WANTED]
    weak = own[(own["power"] < WANTED) & (own["why"] == "")]
    none = own[own["why"] != ""]
    unit = plan.settings.unit
    parts = []
    if len(able):
        sure = (f"{_shown(r, unit)} (power {r.power:.0%})" for r in able.itertuples())
        parts.append(f"can show {_listed(sure)}")
    if len(weak):
        short = (f"{_shown(r, unit)} (power {r.power:.0%}, {_enough(r)})" for r in weak.itertuples())
        parts.append(f"is too small to show {_listed(short)}")
    if len(none):
        never = (_shown(r, unit) for r in none.itertuples())
        parts.append(f"cannot show {_listed(never)}, since {_reasons(none['why'])}")
    text = f"The study {'; it '.join(parts)}."
    few = f" With fewer than {FEWEST} participants no interval is reliable." if n < FEWEST else ""
    return text + _cost(plan) + _coin(plan, here) + few


def _cost(plan: Plan) -> str:
    """The cost of the policy's own randomisation."""
    coins = plan.power.coins.set_index("design")
    if BARE not in coins.index:
        return ""
    lost = float(coins.loc[plan.values.main, "lost"])
    cost = f"{number(max(0.0, lost))} {plan.settings.unit} per day"
    return f" Leaving {plan.settings.nudges} and actions to chance costs {cost} against the same policy without chance."


def _shown(row: Any, unit: str) -> str:
    """An effect that the study might show: with its sign, and with the action or arm it is compared with."""
    level = LEVEL_OF.fullmatch(str(row.effect))
    clear = row.why == ""
    if level is not None and clear:
        than = "worse" if row.estimate < 0.0 else "better"
        return f"that {level[1]} is {than} than {row.reference} (by {number(abs(row.estimate))} {unit})"
    if level is not None:
        return f"whether {level[1]} is better than {row.reference}"
    if row.effect != row.question:
        _, _, by = str(row.effect).partition(":")
        return f"how the effect depends on {by}" if by else "the effect where every moderator is 0"
    return f"the negative {row.effect}" if clear and row.estimate < 0.0 else f"the {row.effect}"


def _listed(texts: Iterable[str]) -> str:
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last


def _reasons(why: pd.Series) -> str:
    return "; and ".join(dict.fromkeys(why))


def _enough(row: Any) -> str:
    many = row.participants_for_80
    if not math.isfinite(many):
        return f"more than {MOST:,} participants for 80%"
    return f"{many:,.0f} participants for 80%" + (", too few for reliable intervals" if many < FEWEST else "")


def _coin(plan: Plan, here: pd.DataFrame) -> str:
    """The benefit and cost of the best randomised design, if the study as planned lacks power.

    With several contrasts, the one with the least power counts.
    """
    primary = here[here["question"] == plan.power.primary].sort_values("power", kind="stable")
    primary = primary.drop_duplicates("design").set_index("design")
    now = float(primary["power"].get(plan.values.main, math.nan))
    coins = primary.drop(index=[plan.values.main, BARE], errors="ignore")
    if now >= WANTED or not coins["power"].notna().any():
        return ""
    best = coins["power"].idxmax()
    row, lost = coins.loc[best], plan.power.coins.set_index("design").loc[best]
    return (
        f" “{best}” shows {_shown(row, plan.settings.unit)} with probability {row['power']:.0%} and costs "
        f"{number(max(0.0, float(lost['lost'])))} {plan.settings.unit} per day."
    )


def _planned(settings: Settings) -> str:
    """Where the number of participants comes from."""
    own = settings.participants == (settings.study.settings.participants.planned or PARTICIPANTS)
    return "[participants] planned" if own else "--participants"


def assumptions_table(plan: Plan) -> pd.DataFrame:
    """The plan's assumptions: each with its value and its place in the file."""
    settings = plan.settings
    study = settings.study.settings
    world = study.world
    effects = settings.study.effects
    drawn = sum(effect.drawn for effect in effects.values())
    noise = study.reward.noise_sd if world.noise_sd is None else world.noise_sd
    whose = "shared by all" if settings.shared else "one each"
    late = f"by up to {world.reward_delay:,} decisions" if world.reward_delay else "never"
    minutes = "not given" if study.nudge.minutes is None else f"{study.nudge.minutes:g}"
    rows = [
        ("participants", f"{settings.participants:,}", _planned(settings)),
        ("begin", _beginning(study.participants.enrolment_days), "[participants] enrolment_days"),
        ("leave before the end", f"{study.participants.dropout:.0%}", "[participants] dropout"),
        ("decisions", f"{settings.horizon:,} each, {settings.per_day} per day", "[study] horizon, decisions_per_day"),
        ("effects", f"{len(effects)} terms, {drawn} of them drawn for each participant", "[effects]"),
        ("formula", study.reward.formula, "[reward] formula"),
        ("noise", f"sd {noise:g}", "[reward] noise_sd, [world] noise_sd"),
        ("context probabilities", "known to the agents" if study.contexts.known else "learned", "[contexts] known"),
        (f"{article(settings.nudge)} is answered", rate_in_words(world.response_rate, ".0%"), "[world] response_rate"),
        ("the app is opened unasked", f"{rate_in_words(world.open_rate, '.1%')} of decisions", "[world] open_rate"),
        ("available", f"{world.available_rate:.0%} of decisions", "[world] available_rate"),
        ("rewards arrive", f"{world.reward_rate:.0%}", "[world] reward_rate"),
        ("rewards are late", late, "[world] reward_delay"),
        ("budget", f"{whose}, {study.study.budget_kind}", "[study] budget_kind, budget_shared"),
        ("policy", plan.values.main, "[serve] policy, [[policies]]"),
        ("minutes of staff", minutes, "[nudge] minutes"),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["assumption", "value", "in the file"])


def _beginning(days: int) -> str:
    return "all on the same day" if days == 1 else f"evenly over {days:,} days"


def methods(plan: Plan) -> list[str]:
    """How each answer was computed, and what was approximated."""
    settings = plan.settings
    text = [
        f"Value: {settings.participants:,} participants, each with their own effects, {settings.replicates:,} "
        f"replications of every policy at every budget, as it would run live, with the file’s hours, caps and least "
        f"probabilities; {settings.fewer:,} in the search for the least budget. All "
        "policies meet the same arrivals, noise and openings. Outcomes are expected rewards of participants "
        "who stay to "
        "the end; without nudges each policy’s own recommender goes on, so curves may begin at different heights. "
        f"Shares are of {most_of(plan)}: the better of {article(settings.nudge)} at every allowed decision and "
        f"{plan.values.main} without a limit on its budget{_here(plan)}.",
        f"Workload: {settings.traced:,} replications with every step kept; participants who leave make no more "
        "decisions. " + _day_by_day(settings),
        f"Caps: the same cohorts, with staff who can make at most that many {settings.nudges} in a day. "
        f"{article(settings.nudge, capital=True)} is charged to the budget when it is proposed, as in the live "
        "study; staff make them in the order of proposals, with a random order within a moment. One "
        "that is not made on its day counts as unanswered; it is not made up for later.",
        f"What if: {settings.fewest:,} replications for each{_fewer_traced(settings)}. "
        "Agents believe what the file says; only the world changes.",
        f"Power: {plan.power.people:,} fresh participants, dropout included, are analysed as the study’s own record "
        "will be (weighted and centred least squares with the recorded probabilities, clustered by participant). Each "
        "participant’s contribution to the estimate gives its variance for any number of participants, and noncentral "
        "t gives the power. Only findings with the right sign count. Several actions are adjusted by Holm.",
    ]
    if settings.shared:
        text.append(
            "Shared budget: in the tables of value, what if and power all participants begin together. In workload, "
            "who gets them, caps, and “what if” where some leave, others can spend what those who leave do not need."
        )
    return text


def _here(plan: Plan) -> str:
    return f"; in this study {best_end(plan)}" if plan.least.useful else ""


def _fewer_traced(settings: Settings) -> str:
    if settings.fewest_traced == settings.fewest:
        return ""
    return f" ({settings.fewest_traced:,} where some leave, since every step is kept)"


def _day_by_day(settings: Settings) -> str:
    """How shared budgets and caps were simulated."""
    people = min(settings.participants, MOST_PEOPLE)
    cohorts = cohorts_of(settings)
    some = "" if people == settings.participants else f" of {people:,} of them, with numbers and caps in proportion"
    many = f"{cohorts:,} cohorts{some} were" if cohorts > 1 else f"one cohort{some} was"
    return (
        f"For shared budgets and caps {many} simulated day by day: participants begin as the file says, and the "
        "budget no longer counts on those who have left."
    )
