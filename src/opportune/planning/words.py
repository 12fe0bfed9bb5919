"""The plan in words: the sentence at the end, the recommendation, the assumptions, the methods."""

import math

import numpy as np
import pandas as pd

from opportune.analysis.intervals import Interval, interval
from opportune.planning.budget import shares
from opportune.planning.cohorts import MOST_PEOPLE, cohorts_of
from opportune.planning.power import LEAST_USABLE
from opportune.planning.run import Plan
from opportune.planning.settings import Settings

FLAT = 0.02
"""Shares that differ by less are nearly the same."""


def number(value: float, digits: int = 2) -> str:
    """A number for people, with `digits` significant digits."""
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
    """A number of nudges, in the study's word for them."""
    whole = round(n)
    return f"{whole:,} {plan.settings.nudge if whole == 1 else plan.settings.nudges}"


def sentence(plan: Plan) -> str:
    """The plan in a few plain sentences."""
    least, settings = plan.least, plan.settings
    budget = least.budget
    if not least.useful:
        return (
            f"{settings.nudges.capitalize()} bring nothing that can be told from 0 in this study: the outcome "
            "per day is "
            f"{number(float(plan.values.never.mean()), 3)} {settings.unit} without any and "
            f"{number(float(plan.values.always.mean()), 3)} with one at every decision."
        )
    whole = count(plan, budget * settings.participants).split(" ")[0]
    each = f"{count(plan, budget)} per participant ({whole} in all)"
    more = f"the {ordinal(budget + 1)} {settings.nudge} adds {number(plan.one_more.mean)} {settings.unit} per day"
    if math.isnan(plan.one_more.mean):
        more = "there are no more decisions than that"
    if least.reached:
        first = f"{each} bring {settings.target:.0%} of what unlimited {settings.nudges} would; {more}."
    else:
        first = (
            f"No number of {settings.nudges} brings {settings.target:.0%} of what a {settings.nudge} at every decision "
            f"would: {plan.values.main} comes to {least.most:.0%} at most. {each} bring {settings.target:.0%} of that; "
            f"{more}."
        )
    work = plan.workload.work
    return f"{first} Expect {count(plan, work.usual)} on a usual day and {round(work.busy):,} on the busiest in twenty."


def recommendation(plan: Plan) -> list[str]:
    """What a principal investigator should know first, one sentence or two each."""
    settings, least = plan.settings, plan.least
    found = [sentence(plan)]
    if least.useful:
        low, high = least.low, least.high
        upper = f"{round(high):,}" if math.isfinite(high) else f"more than {settings.horizon:,}"
        found.append(
            f"Another cohort of {settings.participants:,} participants with effects drawn from the same distributions "
            f"might need {math.ceil(low - 1e-9):,} to {upper} {settings.nudges} each for the same (95% "
            "interval). Of single "
            f"participants, the middle eight in ten need {number(least.drawn_low)} to {number(least.drawn_high)}."
        )
        found.append(_half(plan))
        if not least.reached:
            found.append(_limit(plan))
        found.append(_best(plan))
        found.append(_unsure(plan))
        found.append(_moves(plan))
    return [text for text in (*found, _power(plan)) if text]


def _half(plan: Plan) -> str:
    """What half the budget would bring, on the line between the budgets around it: whether the target is worth it."""
    curve = plan.values.outcome[plan.values.main]
    budgets = sorted(curve)
    never, always = float(plan.values.never.mean()), float(plan.values.always.mean())
    reached = [float(shares(curve[b].mean(), never, always)) for b in budgets]
    half = max(1, round(plan.least.budget / 2))
    whole = float(np.interp(plan.least.budget, budgets, reached))
    near = float(np.interp(half, budgets, reached)) >= whole - FLAT
    flat = " The curve is nearly flat in between: the smaller number may be the better one." if near else ""
    return (
        f"Half as many, {count(plan, half)}, would bring {float(np.interp(half, budgets, reached)):.0%} of what a "
        f"{plan.settings.nudge} at every decision would, where the plan’s {plan.least.budget:,} bring {whole:.0%}."
        f"{flat}"
    )


def _limit(plan: Plan) -> str:
    """Why no budget is enough, and that more of it would not help."""
    settings, main = plan.settings, plan.values.main
    most = float(plan.values.nudges[main][float(settings.horizon)].mean())
    restraint = settings.study.settings.policies[settings.main].rule.restraint
    why = f": {restraint.format(nudges=settings.nudges)}" if restraint else ""
    return (
        f"More than about {number(most)} {settings.nudges} each would not help: where nothing limits it, {main} makes "
        f"no more in {settings.horizon:,} decisions{why}. What is missing then is not a matter of the budget."
    )


def _best(plan: Plan) -> str:
    """Which of the file's policies does best with the same budget, and by how much."""
    values, settings = plan.values, plan.settings
    budgets = [b for b in settings.budgets if b > 0.0]
    if len(values.outcome) < 2:
        return ""
    ranked = {b: sorted(values.outcome, key=lambda name: -float(values.outcome[name][b].mean())) for b in budgets}
    near = min(budgets, key=lambda b: abs(b - plan.least.budget))
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
    return f"{text} {values.main}, which the plan is for, brings {less}" + (f": consider {first}." if surely else ".")


def _ends(found: Interval) -> str:
    """An interval's ends in brackets; nothing for one without ends."""
    if math.isnan(found.low) or math.isnan(found.high):
        return ""
    return f" (95% {number(found.low)} to {number(found.high)})"


def _unsure(plan: Plan) -> str:
    """How far the answer moves with what pilot data leave uncertain."""
    if plan.unsure.empty:
        return ""
    found = plan.unsure.set_index("measure")
    low, high = (float(found.loc["least", end]) for end in ("low", "high"))
    upper = f"{math.ceil(high):,}" if math.isfinite(high) else f"more than {plan.settings.horizon:,}"
    lower = f"{math.ceil(low):,}" if math.isfinite(low) else upper
    return (
        "The means of effects are not sure themselves (se in the file): with others that the pilot data allow, "
        f"{lower} to {upper} {plan.settings.nudges} would be needed for the same share in nine of ten draws, and "
        f"{plan.least.budget:,} bring {found.loc['share', 'low']:.0%} to {found.loc['share', 'high']:.0%}."
    )


def _moves(plan: Plan) -> str:
    table = plan.robustness.iloc[1:]
    if table.empty:
        return "No assumption was changed."
    worst = table.loc[table["moves"].idxmax()]
    least = worst["least"]
    text = f"{math.ceil(least):,}" if math.isfinite(least) else f"no number of {plan.settings.nudges} would be enough"
    need = f"{text} {plan.settings.nudges} would be needed" if math.isfinite(least) else text
    return (
        f"Of the assumptions that were changed one at a time, “{worst['assumption']}” moves the answer most: "
        f"{need}, and "
        f"{count(plan, plan.least.budget)} would bring {worst['share']:.0%} instead of "
        f"{plan.robustness.iloc[0]['share']:.0%}."
    )


def _power(plan: Plan) -> str:
    table = plan.power.table
    here = table[(table["budget"] == plan.least.budget) & (table["participants"] == plan.settings.participants)]
    nudge = here[here["effect"] == "nudge"].set_index("design")
    main = plan.values.main
    usable = float(nudge.loc[main, "usable"])
    coins = nudge.drop(index=main)
    best = coins["power"].idxmax() if coins["power"].notna().any() else None
    offer = ""
    if best is not None:
        lost = plan.power.coins.set_index("design").loc[best]
        offer = (
            f" “{best}” finds it with probability {coins.loc[best, 'power']:.0%} and costs "
            f"{number(max(0.0, float(lost['lost'])))} {plan.settings.unit} per day."
        )
    if math.isnan(nudge.loc[main, "power"]) or usable < LEAST_USABLE:
        return (
            f"Warning: with {main} as it is, {1 - usable:.0%} of the probabilities of a {plan.settings.nudge} "
            "are 0 or 1, "
            f"and the effect of a {plan.settings.nudge} cannot be estimated from those decisions afterwards." + offer
        )
    return (
        f"The analysis finds the effect of a {plan.settings.nudge} with probability {nudge.loc[main, 'power']:.0%}."
        + offer
    )


def assumptions_table(plan: Plan) -> pd.DataFrame:
    """What the plan takes for granted: each assumption, its value, and where it stands in the file."""
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
        ("participants", f"{settings.participants:,}", "[participants] planned"),
        ("begin", _beginning(study.participants.enrolment_days), "[participants] enrolment_days"),
        ("leave before the end", f"{study.participants.dropout:.0%}", "[participants] dropout"),
        ("decisions", f"{settings.horizon:,} each, {settings.per_day} per day", "[study] horizon, decisions_per_day"),
        ("effects", f"{len(effects)} terms, {drawn} of them drawn for each participant", "[effects]"),
        ("formula", study.reward.formula, "[reward] formula"),
        ("noise", f"sd {noise:g}", "[reward] noise_sd, [world] noise_sd"),
        ("context probabilities", "known to the agents" if study.contexts.known else "learned", "[contexts] known"),
        (f"a {settings.nudge} is answered", f"{world.response_rate:.0%}", "[world] response_rate"),
        ("the app is opened unasked", f"{world.open_rate:.1%} of decisions", "[world] open_rate"),
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
        f"Value: {settings.participants:,} participants, each with effects of its own, {settings.replicates:,} "
        f"replications of every policy at every budget; {settings.fewer:,} while the least budget is searched for. All "
        "policies meet the same arrivals, noise and openings. Outcomes are expected rewards of participants "
        "who stay to "
        "the end; without nudges each policy’s own recommender goes on, so that curves may begin at different heights.",
        f"Workload: {settings.traced:,} replications of which every step was kept; participants who leave make no more "
        "decisions from then on. " + _day_by_day(settings),
        f"Caps: the same cohorts with staff who can make so many {settings.nudges} in a day at most. A "
        f"{settings.nudge} is charged to the budget when it is proposed, as in the live study; staff make them in the "
        "order of proposals, those of one moment in an order that is drawn. One that is not made on its day counts as "
        "unanswered; it is not made up for later.",
        f"What if: {settings.fewest:,} replications for each{_fewer_traced(settings)}. "
        "Agents believe what the file says; only the world changes.",
        "Power: weighted and centred least squares with the recorded probabilities, clustered by participant, with "
        "Student’s t and a correction for few participants; cohorts are put together from simulated participants. The "
        "effect of actions rests on the study’s formula, as actions are not tossed for.",
    ]
    if settings.shared:
        text.append(
            "Shared budget: in the tables of value, what if and power all participants begin together. What leavers do "
            "not need any more is spent on others in workload, who gets them, caps, and “what if” where some leave."
        )
    return text


def _fewer_traced(settings: Settings) -> str:
    if settings.fewest_traced == settings.fewest:
        return ""
    return f" ({settings.fewest_traced:,} where some leave, since every step is kept)"


def _day_by_day(settings: Settings) -> str:
    """How shared budgets and caps were simulated."""
    people = min(settings.participants, MOST_PEOPLE)
    cohorts = cohorts_of(settings)
    some = "" if people == settings.participants else f" of {people:,} of them, numbers and caps in proportion"
    many = f"{cohorts:,} cohorts{some} were" if cohorts > 1 else f"one cohort{some} was"
    return (
        f"For shared budgets and caps {many} gone through day by day: participants begin as the file says, and those "
        "who leave are no longer counted on by others."
    )
