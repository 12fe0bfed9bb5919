"""The tables of the brushing experiment."""

from collections.abc import Mapping

import xarray as xr

from opportune.analysis.intervals import Interval, interval
from opportune.experiments.base import Config
from opportune.experiments.oralytics.grid import BUDGETS, MODELS, REFERENCES, REVEALED, THREE, UNREVEALED
from opportune.experiments.oralytics.informed import INFORMED
from opportune.experiments.oralytics.numbers import Numbers, lead, lead_by_trial, summarise, whole_course
from opportune.experiments.record import Cell, Table


def all_tables(config: Config, parts: Mapping[str, xr.Dataset], numbers: Numbers) -> list[Table]:
    """Both studies at the end, costs, own and shared budgets, and own and pooled models."""
    return [
        _end(numbers["base"], numbers["robas2"]),
        _costs(config, numbers),
        _pooled(parts["pooled"]),
        _models(parts, numbers),
    ]


def by_cost(config: Config, numbers: Numbers, policy: str) -> Numbers:
    """A policy's means and their errors at each cost, from 0 up."""
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
    """Reveals of the users who got fewest and most, to show how sharing affects fairness."""
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


def _models(parts: Mapping[str, xr.Dataset], numbers: Numbers) -> Table:
    """One model for each user, and one for all."""
    rows: list[list[Cell]] = []
    for task, users in MODELS.items():
        for policy in (*THREE, REVEALED):
            own, pooled = f"{policy} own", f"{policy} pooled"
            over_users = interval(lead(parts[task], pooled, own))
            over_trials = interval(lead_by_trial(parts[task], pooled, own))
            rows.append(
                [
                    f"{policy}, {users}",
                    f"{numbers[task][own]['mean']:.1f}",
                    f"{numbers[task][pooled]['mean']:.1f}",
                    str(over_users),
                    str(over_trials),
                    f"{100 * numbers[task][own]['sent']:.0f}%",
                    f"{100 * numbers[task][pooled]['sent']:.0f}%",
                ]
            )
    return Table(
        caption="A model for each user, and one that all ten learn together: brushing (seconds per session), the "
        "difference on the same draws, ± 95% interval over users and over trials, and the share of sessions with a "
        "message",
        columns=["policy", "own", "pooled", "pooled ahead, by user", "by trial", "sent, own", "sent, pooled"],
        rows=rows,
    )
