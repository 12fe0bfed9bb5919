"""The tables of the brushing experiment."""

from collections.abc import Mapping

import xarray as xr

from opportune.analysis.intervals import Interval
from opportune.experiments.base import Config
from opportune.experiments.oralytics.grid import BUDGETS, REFERENCES, REVEALED, THREE, UNREVEALED
from opportune.experiments.oralytics.informed import INFORMED
from opportune.experiments.oralytics.numbers import Numbers, summarise, whole_course
from opportune.experiments.record import Cell, Table


def all_tables(config: Config, parts: Mapping[str, xr.Dataset], numbers: Numbers) -> list[Table]:
    """Both studies at the end, costs, and own and shared budgets."""
    return [_end(numbers["base"], numbers["robas2"]), _costs(config, numbers), _pooled(parts["pooled"])]


def by_cost(config: Config, numbers: Numbers, policy: str) -> Numbers:
    """A policy's means and their errors at each cost, 0 first."""
    found = [numbers["base"][policy], *(numbers[f"cost-{c}"][policy] for c in config["costs"])]
    return {key: [n[key] for n in found] for key in ("mean", "half_width", "se_paper")}


def _plus_minus(number: Numbers) -> str:
    return str(Interval(number["mean"], number["half_width"]))


def _end(robas3: Numbers, robas2: Numbers) -> Table:
    rows: list[list[Cell]] = []
    for policy in (*THREE, *REFERENCES, UNREVEALED, REVEALED):
        row: list[Cell] = [policy]
        for numbers in (robas3[policy], robas2[policy]):
            row += [_plus_minus(numbers), f"{numbers['se_paper']:.2f}"]
        rows.append([*row, f"{100 * robas3[policy]['sent']:.0f}%", f"{robas3[policy]['reveals']:.1f}"])
    return Table(
        caption="Mean seconds brushed per session over the whole course, ± 95% interval over users, and the standard "
        "error by the paper's formula; share of sessions with a message and reveals per user (ROBAS 3)",
        columns=["policy", "ROBAS 3", "SE, paper", "ROBAS 2", "SE, paper", "sent", "reveals"],
        rows=rows,
    )


def _costs(config: Config, numbers: Numbers) -> Table:
    costs = [("base", 0), *((f"cost-{c}", c) for c in config["costs"])]
    return Table(
        caption="Brushing less the cost of messages, seconds per session, ± 95% interval over users",
        columns=["policy", *(f"cost {c} s" for _, c in costs)],
        rows=[
            [policy, *(_plus_minus(numbers[task][policy]) for task, _ in costs)]
            for policy in (*THREE, *REFERENCES, INFORMED)
        ],
    )


def _pooled(data: xr.Dataset) -> Table:
    """Reveals of the user who got fewest and most: what sharing does to fairness."""
    rows: list[list[Cell]] = []
    for policy in THREE:
        for name in BUDGETS:
            one = data.sel(policy=f"{policy} {name}")
            users = one["reveals"].mean("replicate")
            rows.append(
                [
                    f"{policy}, {name}",
                    _plus_minus(summarise(whole_course(one))),
                    f"{float(one['spent'].sum('world').mean()):.1f}",
                    int(one["nudges"].sum("world").max()),
                    f"{float(users.min()):.1f}",
                    f"{float(users.max()):.1f}",
                ]
            )
    return Table(
        caption="Own and shared budgets: brushing (seconds per session, ± 95% interval over users), expected nudges "
        "of all users together, the most nudges in any trial, and the mean number of reveals of the user with "
        "fewest and with most",
        columns=["policy and budget", "brushing", "expected nudges", "most nudges", "fewest reveals", "most reveals"],
        rows=rows,
    )
