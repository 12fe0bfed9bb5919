"""No revealer nudges where nudges are not allowed: by a calendar, a run-in, and caps on people and on staff."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray as xr

from opportune.algorithm.reasons import HOURS, QUIET
from opportune.limits import Limits
from opportune.policy import Policy
from opportune.simulation.timetable import Timetable
from opportune.testing.cases import Case, must, simulated

LIMITS = Limits(run_in=3, per_week=2, least_hours_between=20.0, per_day=1)
WEEK = 168.0


def check_eligibility(who: str, case: Case, policies: Sequence[Policy]) -> None:
    """Run the policies under a calendar and limits, and check that both are respected."""
    calendar = timetable_for(case)
    limited = [replace(policy, limits=LIMITS) for policy in policies]
    check_limits(who, case, simulated(case, limited, timetable=calendar), calendar)


def timetable_for(case: Case) -> Timetable:
    """Three decision points a day; evenings are quiet, nobody works on Sundays, and people begin on different days."""
    start = 3 * np.arange(len(case.worlds))
    slot = start[:, None] + np.arange(case.horizon)
    closed = np.where(slot % 3 == 2, QUIET, np.where(slot // 3 % 7 == 6, HOURS, 0))
    return Timetable(closed=closed, hours=8.0 * slot, day=slot // 3, start=start)


def check_limits(who: str, case: Case, data: xr.Dataset, calendar: Timetable) -> None:
    """Check that closed decision points have no nudge and probability 0, and that every cap is respected."""
    for policy in range(data.sizes["policy"]):
        where = f"{case.name}, policy {str(data['policy'].values[policy])!r}"
        for replicate in range(data.sizes["replicate"]):
            run = data.isel(policy=policy, replicate=replicate)
            nudged = run["nudged"].values.astype(bool)
            shut = (calendar.closed > 0) | (np.arange(nudged.shape[1]) < LIMITS.run_in)
            must(not (nudged & shut).any(), who, where, "a nudge was made where none is allowed; expected none")
            odds = run["probability"].values[shut]
            must(not odds.any(), who, where, f"where no nudge is allowed a probability is {odds.max():g}; expected 0")
            days = np.bincount(calendar.day[nudged], minlength=1)
            must(days.max() <= 1, who, where, f"{days.max()} nudges in a day; expected at most 1, as staff can make")
            for hours in (calendar.hours[w][nudged[w]] for w in range(len(nudged))):
                close = (np.diff(hours) < 20.0).any() or (hours[2:] - hours[:-2] < WEEK).any()
                must(not close, who, where, f"nudges at hours {hours}; expected 20 hours between, and 2 in 7 days")
