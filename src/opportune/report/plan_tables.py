"""The tables of a plan for readers: words for columns, rounded numbers, intervals beside their means."""

import math

import pandas as pd

from opportune.experiments.record import Cell, Table
from opportune.planning.phrases import best_end, most_of, number
from opportune.planning.power import FEWEST, MOST
from opportune.planning.run import Plan
from opportune.planning.uncertainty import DRAWS
from opportune.planning.words import assumptions_table
from opportune.study.naming import article


def report_tables(plan: Plan) -> dict[str, Table]:
    """Every table of the report by its name."""
    tables = plan.tables()
    nudge, nudges, unit = plan.settings.nudge, plan.settings.nudges, plan.settings.unit
    found = {
        "value": _value(plan, tables["value"]),
        "arms": _arms(plan),
        "workload": _workload(plan, tables["workload"]),
        "caps": Table(
            caption=f"The cost of a cap on {nudges} per day: those beyond it are charged to the budget but not "
            "made",
            columns=["at most per day", "not made", f"{unit} per day", "lost (95% interval)"],
            rows=[
                ["no cap" if math.isinf(r.cap) else int(r.cap), f"{r.undone:.1%}", number(r.outcome, 3),
                 _between(r.lost, r.low, r.high) if r.undone else None]
                for r in tables["caps"].itertuples()
            ],
        ),
        "participants": Table(
            caption=f"{nudges.capitalize()} of the participants who get fewest and most, including those who leave "
            "early, with a budget each and with one budget for all",
            columns=["participants", "budget", f"{nudges} each (95% interval)", "share of all"],
            rows=[
                [r.participants, r.budget, _between(r.nudges, r.low, r.high), f"{r.share:.0%}"]
                for r in tables["participants"].itertuples()
            ],
        ),
        "levels": Table(
            caption=f"The share of decisions with {article(nudge)}, by level of each public or sensed variable, and "
            "the gain from fresh advice at such a decision",
            columns=["variable", "level", "of all decisions", f"with {article(nudge)} (95% interval)",
                     f"gain from fresh advice, {unit}"],
            rows=[
                [r.variable, r.level, f"{r.decisions:.0%}", _percent(r.rate, r.low, r.high),
                 None if math.isnan(r.worth) else _between(r.worth, r.worth_low, r.worth_high)]
                for r in tables["levels"].itertuples()
            ],
        ),
        "times": Table(
            caption=f"When participants get their {nudges}: early against late",
            columns=["part of the study", f"share of {nudges} (95% interval)"],
            rows=[[r.time, _percent(r.share, r.low, r.high)] for r in tables["times"].itertuples()],
        ),
        "robustness": _robustness(plan, tables["robustness"]),
        "unsure": _unsure(plan),
        "power": _power(plan, tables["power"]),
        "power-by-budget": _power_by_budget(plan, tables["power"]),
        "randomising": Table(
            caption="The cost and benefit of randomising: the share of eligible decisions, at which the "
            "effect can be estimated",
            columns=["design", "eligible decisions", f"{unit} per day", "lost (95% interval)"],
            rows=[
                [r.design, f"{r.eligible:.0%}", number(r.outcome, 3),
                 _between(r.lost, r.low, r.high) if r.low < r.high else None]
                for r in tables["randomising"].itertuples()
            ],
        ),
        "assumptions": _assumptions(plan),
    }  # fmt: skip
    return {name: table for name, table in found.items() if name not in {"unsure", "arms"} or table.rows}


def _value(plan: Plan, table: pd.DataFrame) -> Table:
    nudge, nudges, unit = plan.settings.nudge, plan.settings.nudges, plan.settings.unit
    rows: list[list[Cell]] = []
    for r in table.itertuples():
        budget: Cell = (
            "every decision" if math.isnan(r.budget) else int(r.budget) if r.budget == int(r.budget) else r.budget
        )
        nothing = r.share == 0.0 or (r.budget == 0.0 and math.isnan(r.share))
        share = None if nothing else _share(r.share, r.share_low, r.share_high)
        more = None if math.isnan(r.one_more) else _between(r.one_more, r.one_more_low, r.one_more_high)
        gain = None if r.gain == r.gain_low == r.gain_high == 0.0 else _between(r.gain, r.gain_low, r.gain_high)
        rows.append([r.policy, budget, f"{r.nudges:,.1f}", _between(r.outcome, r.low, r.high), gain, share, more])
    return Table(
        caption="The value of the budget, with 95% intervals over participants: mean outcome per participant and day, "
        f"how much more that is for the same people than without {nudges}, its share of {most_of(plan)} "
        f"({best_end(plan)}), and the gain from one more {nudge}",
        columns=[
            "policy",
            f"{nudges} each",
            "made",
            f"{unit} per day",
            f"more than without {nudges}",
            "share",
            f"one more {nudge} adds",
        ],
        rows=rows,
    )


def _arms(plan: Plan) -> Table:
    """A row for each arm of the trial."""
    nudges, unit = plan.settings.nudges, plan.settings.unit
    rows: list[list[Cell]] = [
        [r.arm, r.participants, f"{r.nudges:,.1f}", _between(r.outcome, r.low, r.high),
         None if math.isnan(r.gain) else _between(r.gain, r.gain_low, r.gain_high)]
        for r in plan.arms.itertuples()
    ]  # fmt: skip
    return Table(
        caption=f"The arms of the trial with the file's budget, {plan.settings.proposed:g} {nudges} each: mean outcome "
        "per participant and day. All participants run through every arm, so the same people are compared",
        columns=["arm", "participants", f"{nudges} each", f"{unit} per day", "difference (95% interval)"],
        rows=rows,
    )


def _workload(plan: Plan, table: pd.DataFrame) -> Table:
    nudges = plan.settings.nudges
    hours = bool(table["hours"].notna().any())
    rows: list[list[Cell]] = [
        [r.measure, r.budget, _between(r.nudges, r.low, r.high),
         f"{number(r.cohorts_low, 3)} to {number(r.cohorts_high, 3)}", *([number(r.hours)] if hours else [])]
        for r in table.itertuples()
    ]  # fmt: skip
    return Table(
        caption=f"{nudges.capitalize()} per day for the whole cohort, with a budget each and with one budget for all",
        columns=[
            "",
            "budget",
            f"{nudges} (95% interval of the mean)",
            "in 95% of cohorts",
            *(["hours of staff"] if hours else []),
        ],
        rows=rows,
    )


def _robustness(plan: Plan, table: pd.DataFrame) -> Table:
    nudges, unit = plan.settings.nudges, plan.settings.unit

    def needed(value: float) -> str:
        return f"{math.ceil(value - 1e-9):,}" if math.isfinite(value) else "no number is enough"

    def ends(low: float, high: float) -> str:
        if math.isnan(low):
            return ""
        return f" ({needed(low)} to {needed(high) if math.isfinite(high) else '∞'})" if math.isfinite(low) else ""

    return Table(
        caption=f"The answer with one assumption changed at a time: the least number of {nudges} for the same "
        f"share, and the share that {plan.least.budget:,} bring, with 95% intervals",
        columns=["assumption", "what changes", f"{nudges} needed", "share", f"{unit} per day"],
        rows=[
            [r.assumption, r.text, needed(r.least) + ends(r.least_low, r.least_high),
             _share(r.share, r.share_low, r.share_high), _between(r.outcome, r.outcome_low, r.outcome_high)]
            for r in table.itertuples()
        ],
    )  # fmt: skip


def _unsure(plan: Plan) -> Table:
    nudges, unit, budget = plan.settings.nudges, plan.settings.unit, f"{plan.least.budget:,}"
    names = {
        "never": f"{unit} per day without {nudges}",
        "planned": f"{unit} per day with {budget}",
        "always": f"{unit} per day with one at every decision",
        "share": f"share of {most_of(plan)} that {budget} bring",
        "least": f"{nudges} needed for the plan’s share",
    }

    def cell(measure: str, value: float) -> str:
        if measure == "share":
            return _share(value, math.nan, math.nan)
        if measure == "least":
            return f"{math.ceil(value):,}" if math.isfinite(value) else "no number is enough"
        return number(value, 3)

    rows: list[list[Cell]] = [
        [names[r.measure], cell(r.measure, r.middle), f"{cell(r.measure, r.low)} to {cell(r.measure, r.high)}"]
        for r in plan.unsure.itertuples()
    ]
    return Table(
        caption=f"The effect of uncertain pilot data: the answer with {DRAWS} other draws of the means of effects, "
        "the same for all participants",
        columns=["", "middle", "nine in ten draws"],
        rows=rows,
    )


def _power(plan: Plan, table: pd.DataFrame) -> Table:
    """The power of each design with the planned number of participants, and the number needed."""
    here = table[(table["budget"] == plan.budget) & (table["participants"] == plan.settings.participants)]
    here = pd.concat([here[here["effect"] == effect] for effect in dict.fromkeys(here["effect"])])
    n = f"{plan.settings.participants:,}"
    return Table(
        caption=f"Power of the analysis with {plan.budget:,} {plan.settings.nudges} each: the probability "
        "that it detects the effect, with the right sign, at the 5% level, and the participants needed for 80%",
        columns=["analysis", "design", "effect", f"standard error, {n} participants", f"power, {n} participants",
                 "participants for 80%"],
        rows=[
            [r.effect, r.design, *(["–", "–", "none", "–"] if math.isnan(r.power) else
             [number(r.estimate), number(r.se), _percent(r.power, math.nan, math.nan), _needed(r.participants_for_80)])]
            for r in here.itertuples()
        ],
    )  # fmt: skip


def _needed(participants: float) -> str:
    if math.isnan(participants):
        return "no detectable effect"
    if not math.isfinite(participants):
        return f"more than {MOST:,}"
    return f"{participants:,.0f}" + (f" (below {FEWEST}: too few)" if participants < FEWEST else "")


def _power_by_budget(plan: Plan, table: pd.DataFrame) -> Table:
    here = table[(table["participants"] == plan.settings.participants) & (table["question"] == plan.power.primary)]
    return Table(
        caption=f"The primary analysis ({plan.power.primary}) by the number of {plan.settings.nudges}, with "
        f"{plan.settings.participants:,} participants",
        columns=["design", f"{plan.settings.nudges} each", "eligible decisions", "power", "participants for 80%"],
        rows=[
            [r.design, int(r.budget), f"{r.eligible:.0%}",
             *(["none", "–"] if math.isnan(r.power) else
               [_percent(r.power, math.nan, math.nan), _needed(r.participants_for_80)])]
            for r in here.itertuples()
        ],
    )  # fmt: skip


def _assumptions(plan: Plan) -> Table:
    found = assumptions_table(plan)
    return Table(caption="What the plan assumes", columns=list(found.columns), rows=found.to_numpy().tolist())


def _between(mean: float, low: float, high: float) -> str:
    """A mean with its interval, with as many digits as the interval's width justifies."""
    if math.isnan(low) or math.isnan(high) or high <= low:
        return number(mean, 3)
    places = max(0, -math.floor(math.log10((high - low) / 2.0)))
    texts = [f"{value:,.{min(places, 6)}f}".replace("-", "−") for value in (mean, low, high)]
    return f"{texts[0]} ({texts[1]} to {texts[2]})"


def _share(share: float, low: float, high: float) -> str:
    """A share of the most that nudges bring; words if that is undefined."""
    return "no sure gain" if not math.isfinite(share) else _percent(share, low, high)


def _percent(share: float, low: float, high: float) -> str:
    if math.isnan(share):
        return "–"
    text = f"{100 * share:.0f}%".replace("-", "−")
    if math.isnan(low):
        return text
    return f"{text} ({100 * low:.0f} to {100 * high:.0f})".replace("-", "−")
