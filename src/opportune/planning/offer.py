"""The gain from the file's own budget, beside the best simple alternative and beside no limit at all.

Gains are paired differences to no nudges under the same recommender: every policy meets the same arrivals and noise.
The simple alternatives spend the same budget under the same hours and caps: at every k-th decision, with k as large as
the budget allows, and at random moments.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from opportune.analysis.intervals import Interval, interval
from opportune.planning.budget import Floats, Values
from opportune.planning.settings import Settings
from opportune.planning.simulated import Simulations, means
from opportune.policy import Policy
from opportune.revealers import FixedRate, Periodic
from opportune.study.arms import arm_entries


class Offer(NamedTuple):
    """The gain from the file's budget for each participant and day."""

    budget: float
    gain: Interval
    unlimited: Interval
    """The gain from the same policy if only hours and caps limited it."""
    made: float
    """Nudges that a participant gets on average."""
    simple: str
    """The best simple alternative."""
    simple_gain: Interval
    lead: Interval
    """How far the plan's policy is ahead of it."""
    hours: float
    """Hours of staff for all participants; NaN if the file does not say how long a nudge takes."""
    days: float
    """Total study days of the participants who may get nudges."""

    @property
    def sure(self) -> bool:
        """Whether the gain's interval excludes 0."""
        return not self.gain.low <= 0.0 <= self.gain.high

    @property
    def per_hour(self) -> float:
        """The gain from an hour of staff; NaN if hours are unknown."""
        return self.gain.mean * self.days / self.hours if self.hours else math.nan


def find_offer(settings: Settings, simulations: Simulations, values: Values) -> Offer:
    """The gain from the file's budget; simulates the simple alternatives."""
    budget, main = settings.proposed, values.main
    never, mine = values.never, values.outcome[main][budget]
    made = float(values.nudges[main][budget].mean())
    simple = simple_policies(settings, budget)
    data = simulations.run(
        f"simple-{budget:g}",
        "simple alternatives",
        float(settings.horizon * settings.participants * settings.replicates * len(simple)),
        lambda: means(settings, settings.worlds, list(simple.values()), settings.replicates),
    )
    outcomes = dict(zip(simple, data["outcome"].values, strict=True))
    best = max(outcomes, key=lambda name: float(outcomes[name].mean()))
    minutes = settings.study.settings.nudge.minutes
    return Offer(
        budget=budget,
        gain=interval(mine - never),
        unlimited=interval(values.outcome[main][float(settings.horizon)] - never),
        made=made,
        simple=best,
        simple_gain=interval(outcomes[best] - never),
        lead=interval(mine - outcomes[best]),
        hours=math.nan if minutes is None else made * settings.people * minutes / 60.0,
        days=settings.people * settings.days,
    )


def simple_policies(settings: Settings, budget: float) -> dict[str, Policy]:
    """Policies that a team could follow without a learned rule, by their names in a sentence."""
    own = settings.policy(settings.main, budget)
    every = interval_of(settings, budget)
    times = "every decision" if every == 1 else f"every {every} decisions"
    return {
        f"at fixed intervals ({times})": replace(own, revealer=Periodic(every=every)),
        "at random moments": replace(own, revealer=FixedRate()),
    }


def interval_of(settings: Settings, budget: float) -> int:
    """The longest interval that still spends the budget; if hours never allow that, the one that spends most."""
    timetable = settings.study.timetable(settings.participants)
    run_in = settings.study.settings.study.run_in_days * settings.per_day
    allowed = np.ones((1, settings.horizon), dtype=np.bool_) if timetable is None else timetable.closed == 0
    steps = np.arange(1, settings.horizon + 1)
    allowed = allowed & (steps > run_in)
    counts = {k: float(allowed[:, steps % k == 0].sum(axis=1).mean()) for k in range(settings.horizon, 0, -1)}
    enough = [k for k, count in counts.items() if count >= budget]
    return enough[0] if enough else max(counts, key=lambda k: counts[k])


def find_arms(settings: Settings, simulations: Simulations, budget: float) -> pd.DataFrame:
    """A row for each arm of the file, with its policy at the file's budget; empty without arms.

    All participants run through every arm, so the same people are compared. The difference is to the first arm without
    nudges or, if all arms have them, to the first arm.
    """
    columns = ["arm", "participants", "nudges", "outcome", "low", "high", "gain", "gain_low", "gain_high"]
    arms = settings.study.settings.arms
    if arms is None:
        return pd.DataFrame(columns=columns)
    entries = arm_entries(settings.study.settings).policies
    policies = [settings.policy_of(entry, budget) for entry in entries.values()]
    data = simulations.run(
        f"arms-{budget:g}",
        "arms",
        float(settings.horizon * settings.participants * settings.replicates * len(policies)),
        lambda: means(settings, settings.worlds, policies, settings.replicates),
    )
    outcomes: dict[str, Floats] = dict(zip(entries, data["outcome"].values, strict=True))
    names = list(entries)
    reference = next((name for name in names if not entries[name].rule.spends), names[0])
    shares = sum(arm.share for arm in arms.named.values())
    rows = []
    for i, name in enumerate(names):
        own, gain = interval(outcomes[name]), interval(outcomes[name] - outcomes[reference])
        known = arms.named[name].label
        label = name if known is None else f"{known} ({name})"  # exports and analyses have the name
        size = round(settings.participants * arms.named[name].share / shares)
        other = name != reference
        rows.append(
            [label, size, float(data["nudges"].values[i].mean()), own.mean, own.low, own.high]
            + [value if other else math.nan for value in (gain.mean, gain.low, gain.high)]
        )
    return pd.DataFrame(rows, columns=columns)
