"""A cohort day by day: every decision is that of `simulate` where nothing is otherwise; caps, beginnings, leaving."""

from typing import Any

import numpy as np
import pytest
from plan_studies import numeric, small

import opportune as op
from opportune.planning.days import Days, draws_of, go_through
from opportune.planning.settings import Settings
from opportune.planning.worlds import participants_of

RATES = ("response_rate = 0.9", "response_rate = 0.7\nopen_rate = 0.1\navailable_rate = 0.8\nreward_rate = 0.9")
LATE = ("response_rate = 0.9", "response_rate = 0.7\nopen_rate = 0.1\nreward_delay = 5")
REPORTED = ("probabilities = [0.5, 0.3, 0.2]", "probabilities = [0.5, 0.3, 0.2]\nvisibility = 'reported'")
HABITS = {
    "response_rate": 0.7, "response_spread": 0.5, "habituation": 0.7, "spells": {"rate": 0.05, "days": 3},
    "family": "count", "bounds": (0.0, 5.0),
}  # fmt: skip
UNKNOWN = ("[reward]", "[contexts]\nknown = false\n\n[reward]")


def days(settings: Settings, policy: op.Policy, replicate: int = 0, **given: Any) -> Days:
    """A cohort's days, by default all beginning together and nobody leaving."""
    worlds = participants_of(settings)
    n = len(worlds)
    ways = {"begins": np.zeros(n, dtype=int), "lasts": np.full(n, settings.horizon), **given}
    return go_through(settings, worlds, draws_of(settings, worlds, replicate), policy, **ways)


@pytest.mark.parametrize(
    "settings",
    [small(RATES), small(LATE), small(REPORTED, LATE), small(UNKNOWN), numeric(RATES), numeric(LATE)],
    ids=["rates", "late rewards", "reported and late", "unknown contexts", "numbers", "numbers, late rewards"],
)
@pytest.mark.parametrize(
    "policy",
    [
        op.pace_ucb(6),
        op.pace_ucb(op.Budget(72, shared=True)),
        op.Policy(recommender=op.LinUCB(rotate=True), revealer=op.Pace(randomise=0.3), budget=op.Budget(6, hard=True)),
        op.Policy(recommender=op.LinUCB(), revealer=op.Pace(), budget=op.Budget(6), pooled=True),
        op.Policy(recommender=op.LinUCB(floor=0.1), revealer=op.Pace(), budget=op.Budget(6), update=4),
    ],
    ids=["own", "shared", "hard and with a coin", "pooled", "updates that wait, with a floor"],
)
def test_every_decision_is_that_of_simulate(settings: Settings, policy: op.Policy) -> None:
    """All beginning together, nobody leaving, no cap: the same nudges and outcomes, step by step."""
    worlds = participants_of(settings)
    data = op.simulate(worlds, policy, horizon=settings.horizon, replicates=2, seed=settings.seed, progress=False).isel(
        policy=0, replicate=1
    )
    found = days(settings, policy, replicate=1)
    assert np.array_equal(found.nudged, data["nudged"].values)
    assert np.array_equal(found.made, found.nudged)
    assert found.nudged.any()
    assert found.outcome == pytest.approx(data["outcome"].values, abs=1e-12)


@pytest.mark.parametrize("made", [small, numeric])
def test_people_wear_out_and_go_away_as_in_simulate(made: Any) -> None:
    """Answers that wear off, spells away, counts: the same nudges and outcomes as `simulate`; without, others."""
    settings = made()
    plain = settings.worlds
    data: Any = None
    for worlds in (plain, [world.replace(**HABITS) for world in plain]):
        data = op.simulate(worlds, op.pace_ucb(20), horizon=settings.horizon, replicates=1, seed=settings.seed,
                           progress=False).isel(policy=0, replicate=0)  # fmt: skip
        n = len(worlds)
        found = go_through(settings, worlds, draws_of(settings, worlds, 0), op.pace_ucb(20),
                           begins=np.zeros(n, dtype=int), lasts=np.full(n, settings.horizon))  # fmt: skip
        assert np.array_equal(found.nudged, data["nudged"].values)
        assert found.outcome == pytest.approx(data["outcome"].values, abs=1e-12)
    assert not data["available"].all()
    assert (data["nudged"] & ~data["revealed"]).any()


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("seen", ["sensed", "reported"])
def test_ones_own_history_is_that_of_simulate(seen: Any, delay: int) -> None:
    """Where variables are the participant's own history: the same nudges and outcomes as `simulate`."""
    settings = small()
    problem: Any = op.Problem.from_formula(
        "action * (recent + dose) + stress",
        {"stress": op.Number(0, 1), "dose": op.History(of="nudges", summary="sum", days=4),
         "recent": op.History(of="reward", summary="mean", decisions=3, low=-2, high=2)},
        2, visibility={"stress": seen}, theta_bound=3.0, noise_sd=0.3, decisions_per_day=settings.per_day,
    )  # fmt: skip
    drawn = {"stress": op.distributions.Uniform(0, 1)}
    theta = np.linspace(-0.5, 0.8, problem.d)
    worlds = [op.ContinuousWorld(problem, theta=s * theta, distributions=drawn, response_rate=0.7, available_rate=0.9,
                                 reward_rate=0.8, reward_delay=delay) for s in (1.0, -0.5)]  # fmt: skip
    policy = op.pace_ucb(8)
    data = op.simulate(worlds, policy, horizon=settings.horizon, replicates=1, seed=settings.seed, progress=False)
    found = go_through(settings, worlds, draws_of(settings, worlds, 0), policy, begins=np.zeros(2, dtype=int),
                       lasts=np.full(2, settings.horizon))  # fmt: skip
    assert np.array_equal(found.nudged, data["nudged"].squeeze().values)
    assert found.outcome == pytest.approx(data["outcome"].squeeze().values, abs=1e-12)
    assert found.nudged.any()


def test_budgets_of_ones_own_do_not_care_who_begins_when() -> None:
    """With own budgets the days on which others begin change nothing; with a shared one they do (the control)."""
    settings = small()
    late = np.arange(12) // 4
    assert np.array_equal(days(settings, op.pace_ucb(6)).nudged, days(settings, op.pace_ucb(6), begins=late).nudged)
    together = op.pace_ucb(op.Budget(72, shared=True))
    assert not np.array_equal(days(settings, together).nudged, days(settings, together, begins=late).nudged)


def test_no_day_has_more_than_the_cap() -> None:
    """Staff make no more than so many in a day; what is beyond is charged, and the study gets less for it."""
    settings = small(("response_rate = 0.9", "response_rate = 1.0"))
    policy, begins = op.pace_ucb(8), np.arange(12) // 4
    free, capped = days(settings, policy, begins=begins), days(settings, policy, begins=begins, cap=2)

    def daily(found: Days) -> Any:
        counts = np.zeros(12 + 3)
        for i, day in enumerate(begins):
            counts[day : day + 12] += found.made[i].reshape(12, 2).sum(axis=1)
        return counts

    assert daily(free).max() > 2  # the control: without a cap some days have more
    assert daily(capped).max() == 2
    assert (capped.nudged & ~capped.made).any()
    assert (capped.nudged.sum(axis=1) <= 8).all()
    assert np.nanmean(capped.outcome) < np.nanmean(free.outcome)
    none = days(settings, policy, cap=0)
    assert not none.made.any()


def test_a_call_that_staff_cannot_make_counts_as_unanswered() -> None:
    """With a cap of none every nudge is charged and unanswered, as where nobody answers."""
    never = small(("response_rate = 0.9", "response_rate = 0.0"))
    assert np.array_equal(days(never, op.pace_ucb(8)).nudged, days(small(), op.pace_ucb(8), cap=0).nudged)


def test_the_queue_favours_nobody() -> None:
    """Who is first at a moment is drawn anew, so that a tight cap hits no participant in particular."""
    settings = small(participants=12, budgets=[8])
    made = sum(days(settings, op.pace_ucb(8), replicate=r, cap=1, order=r).made.sum(axis=1) for r in range(12))
    halves = made[:6].sum(), made[6:].sum()
    assert min(halves) > 0.7 * max(halves)


def test_those_who_leave_leave_their_share_to_others() -> None:
    """A shared budget that leavers do not need any more is spent on those who stay; an own one is not."""
    settings = small()
    lasts = np.where(np.arange(12) < 6, 4, 24)
    for shared in (False, True):
        policy = op.pace_ucb(op.Budget(48, shared=True)) if shared else op.pace_ucb(4)
        found = days(settings, policy, lasts=lasts)
        assert not found.nudged[:6, 4:].any()
        assert np.isnan(found.outcome[:6, 4:]).all()
        assert np.isfinite(found.outcome[6:]).all()
        stayers = found.nudged[6:].sum() - days(settings, policy).nudged[6:].sum()
        assert stayers > 6 if shared else stayers == 0
