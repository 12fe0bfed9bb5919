"""The tables of the experiment on PACE."""

from opportune.experiments.base import Config
from opportune.experiments.pace.grid import ALWAYS_SEND, BRUSHING, setting_budgets
from opportune.experiments.pace.growth import PRICE
from opportune.experiments.pace.numbers import Numbers
from opportune.experiments.pace.policies import (
    ADAPTIVE,
    BY_REGRET,
    FLOORS,
    LESS,
    NO_DEBT,
    NO_ROTATION,
    PACE,
    ROTATED,
    SECOND,
    SPLIT,
    STUDY,
    UNKNOWN,
)
from opportune.experiments.pace.settings import SETTINGS
from opportune.experiments.record import Cell, Table
from opportune.experiments.studies import plus_minus

STUDIES = {"robas3": "ROBAS 3", "robas2": "ROBAS 2"}
FELT = (ADAPTIVE, PACE, SECOND, LESS)
LEFT_OUT = {
    PACE: "nothing", NO_ROTATION: "rotation", NO_DEBT: "debt", ROTATED: "pace: PD2's rule instead",
    ADAPTIVE: "all three: PD2 adaptive",
}  # fmt: skip
"""The ablation: the idea that each policy lacks, compared with PACE."""


def all_tables(config: Config, numbers: Numbers) -> list[Table]:
    """The study, the ablation, the two parts of regret, growth with T, the settings, brushing."""
    return [
        _study(config, numbers), _realised(config, numbers), _floor(config, numbers), _ablation(config, numbers),
        _split(config, numbers), _growth(config, numbers), _settings(config, numbers), _brushing(config, numbers),
    ]  # fmt: skip


def _study(config: Config, numbers: Numbers) -> Table:
    budgets = config["budgets"]
    rows: list[list[Cell]] = []
    for policy in STUDY:
        if policy in {NO_ROTATION, NO_DEBT, SECOND}:
            continue
        kind = "realised_regret" if policy in FLOORS else "regret"
        row: list[Cell] = [policy + (" (realised regret)" if policy in FLOORS else "")]
        row += [plus_minus(numbers["known"][str(b)][kind][policy]) for b in budgets]
        if policy in UNKNOWN:
            row += [plus_minus(numbers["unknown"][str(b)][kind][policy]) for b in budgets]
        else:
            row += [None] * len(budgets)
        rows.append(row)
    return Table(
        caption="Mean cumulative regret at the end, ± 95% interval over instances, with p known and unknown",
        columns=["policy", *(f"B = {b}" for b in budgets), *(f"p unknown, B = {b}" for b in budgets)],
        rows=rows,
    )


def _realised(config: Config, numbers: Numbers) -> Table:
    return Table(
        caption="The actual loss of patients: mean realised regret at the end with p known, ± 95% interval over "
        "instances, and the number of reveals made",
        columns=["policy", *(f"B = {b}" for b in config["budgets"]), *(f"spent of {b}" for b in config["budgets"])],
        rows=[
            [
                policy,
                *(plus_minus(numbers["known"][str(b)]["realised_regret"][policy]) for b in config["budgets"]),
                *(f"{numbers['known'][str(b)]['spent'][policy]['mean']:.1f}" for b in config["budgets"]),
            ]
            for policy in STUDY
            if policy not in {NO_ROTATION, NO_DEBT}
        ],
    )


def _floor(config: Config, numbers: Numbers) -> Table:
    """A few instances lose several times as much as most, so these means need many instances."""
    found = [numbers["floor"][str(b)] for b in config["budgets"]]
    rows: list[list[Cell]] = []
    for policy in (PACE, SECOND, LESS, *FLOORS):
        nudges = (None if policy in FLOORS else f"{each['spent'][policy]['mean']:.1f}" for each in found)
        rows.append([policy, *(plus_minus(each["realised_regret"][policy]) for each in found), *nudges])
    return Table(
        caption=f"Realised regret on {config['floor_instances']:,} instances: mean at the end with p known, ± 95% "
        "interval over instances, and the number of reveals made",
        columns=["policy", *(f"B = {b}" for b in config["budgets"]), *(f"spent of {b}" for b in config["budgets"])],
        rows=rows,
    )


def _ablation(config: Config, numbers: Numbers) -> Table:
    return Table(
        caption="Mean cumulative regret of PACE with an idea left out, ± 95% interval over instances",
        columns=["left out", *(f"B = {b}" for b in config["budgets"])],
        rows=[
            [words, *(plus_minus(numbers["known"][str(b)]["regret"][policy]) for b in config["budgets"])]
            for policy, words in LEFT_OUT.items()
        ],
    )


def _split(config: Config, numbers: Numbers) -> Table:
    rows: list[list[Cell]] = []
    for policy in SPLIT:
        row: list[Cell] = [policy]
        for b in config["budgets"]:
            found = numbers["known"][str(b)]
            lost = found["information_reveal_loss"][policy]["mean"]
            row += [f"{lost:.1f}", f"{found['regret'][policy]['mean'] - lost:.1f}"]
        rows.append(row)
    return Table(
        caption="Regret in two parts: the cost of not knowing the arrivals, and the cost of not knowing the rewards",
        columns=["policy", *(f"{part}, B = {b}" for b in config["budgets"] for part in ("arrivals", "rewards"))],
        rows=rows,
    )


def _growth(config: Config, numbers: Numbers) -> Table:
    growth = [numbers["growth"][str(t)] for t in config["horizons"]]
    return Table(
        caption="Growth with the horizon at B = T/10: information reveal loss with theta known, regret with theta "
        "learned, ± 95% interval over instances",
        columns=["", *(f"T = {t:,}" for t in config["horizons"])],
        rows=[
            ["information reveal loss of PACE", *(f"{g['lost'][PACE]['mean']:.2f}" for g in growth)],
            ["information reveal loss of PD1 and PD2", *(f"{g['lost'][PRICE]['mean']:.1f}" for g in growth)],
            ["regret of PACE", *(plus_minus(g["regret"][PACE]) for g in growth)],
            ["regret of PD2 adaptive", *(plus_minus(g["regret"][ADAPTIVE]) for g in growth)],
            ["realised regret, everything revealed", *(plus_minus(g["floor"]) for g in growth)],
        ],
    )


def _settings(config: Config, numbers: Numbers) -> Table:
    rows: list[list[Cell]] = []
    for name in config["settings"]:
        for b in setting_budgets(config, name):
            found = numbers["settings"][name][str(b)]
            realised = (f"{found['realised_regret'][p]['mean']:.1f}" for p in FELT)
            label = SETTINGS[name].label + (" *" if SETTINGS[name].named else "")
            rows.append([label, b, *(plus_minus(found["regret"][p]) for p in BY_REGRET), *realised])
    return Table(
        caption="One thing changed at a time: mean cumulative regret at the end, ± 95% interval over instances, "
        "and realised regret. A star marks the exceptions, in which PACE was seen to lose or to gain little",
        columns=["setting", "B", *BY_REGRET, *(f"realised, {p}" for p in FELT)],
        rows=rows,
    )


def _brushing(config: Config, numbers: Numbers) -> Table:
    rows: list[list[Cell]] = [
        [f"{STUDIES[study]}: {policy}", *(plus_minus(found[str(c)][policy]) for c in config["costs"])]
        for study, found in numbers["brushing"].items()
        for policy in (PACE, *(p for p in BRUSHING if p != PACE), ALWAYS_SEND)
    ]
    return Table(
        caption="Brushing: seconds per session net of the cost of messages, ± 95% interval over users (B = 30)",
        columns=["policy", *(f"cost {c} s" for c in config["costs"])],
        rows=rows,
    )
