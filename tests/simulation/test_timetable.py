"""Where a calendar and a policy's limits allow no nudge, none is made, by any rule; and it says why."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import opportune as op
from opportune.algorithm.reasons import CAP, HOURS, QUIET, RUN_IN, WORDS
from opportune.errors import InputError

STEPS, PEOPLE, REPLICATES = 84, 3, 4
RATES: dict[str, Any] = {"open_rate": 0.1, "response_rate": 0.5, "available_rate": 0.9}
START = np.array([0, 5, 11])
LIMITS = op.Limits(run_in=4, per_week=2, least_hours_between=30.0, per_day=1)


def timetable(start: Any = START) -> op.Timetable:
    """Two decision points a day, 12 hours apart; evenings are quiet, and on two days a week nobody works."""
    slot = np.asarray(start)[:, None] + np.arange(STEPS)
    closed = np.where(slot % 2 == 1, QUIET, np.where(slot // 2 % 7 >= 5, HOURS, 0))
    return op.Timetable(closed=closed, hours=12.0 * slot, day=slot // 2, start=start)


def policies(limits: op.Limits | None = LIMITS) -> list[op.Policy]:
    """Every rule, each with the limits; one with a budget that participants share."""
    rules: dict[str, Any] = {
        "naive": op.FixedRate(), "PD1": op.PrimalDual(), "PD2": op.LearningPrimalDual(), "PACE": op.Pace(),
        "always": op.Always(), "periodic": op.Periodic(every=3),
    }  # fmt: skip
    shared = op.Policy(revealer=op.Pace(), budget=op.Budget(15, shared=True), limits=limits, name="shared")
    alone = [op.Policy(revealer=rule, budget=op.Budget(5), limits=limits, name=name) for name, rule in rules.items()]
    return [*alone, shared]


def run(given: Any, calendar: op.Timetable | None, **changes: Any) -> xr.Dataset:
    """A simulation of lively participants."""
    worlds = [world.replace(**RATES) for world in op.synthetic_worlds(PEOPLE, seed=3)]
    settings: dict[str, Any] = {"horizon": STEPS, "replicates": REPLICATES, "seed": 2, "progress": False}
    return op.simulate(worlds, given, timetable=calendar, **(settings | changes))


@pytest.fixture(scope="module")
def limited() -> xr.Dataset:
    return run(policies(), timetable())


@pytest.fixture(scope="module")
def free() -> xr.Dataset:
    """The control: the same rules where nothing is closed and nothing limited."""
    return run(policies(None), None)


def broken(data: xr.Dataset) -> dict[str, int]:
    """How often each limit is broken."""
    calendar = timetable()
    found = dict.fromkeys(("closed", "run-in", "per week", "between", "per day"), 0)
    for policy in range(data.sizes["policy"]):
        for replicate in range(data.sizes["replicate"]):
            nudged: NDArray[np.bool_] = data["nudged"].values[policy, :, replicate]
            found["closed"] += int((nudged & (calendar.closed > 0)).sum())
            found["run-in"] += int(nudged[:, : LIMITS.run_in].sum())
            found["per day"] += int((np.bincount(calendar.day[nudged]) > 1).sum())
            for who in range(PEOPLE):
                hours = calendar.hours[who][nudged[who]]
                found["between"] += int((np.diff(hours) < 30.0).sum())
                found["per week"] += int((hours[2:] - hours[:-2] < 168.0).sum())
    return found


def test_no_rule_nudges_where_it_is_not_allowed(limited: xr.Dataset, free: xr.Dataset) -> None:
    """Hours, quiet times, run-in, both caps on a participant and staff's hold; without limits each is broken."""
    assert not any(broken(limited).values()), broken(limited)
    assert all(broken(free).values()), broken(free)
    assert (limited["nudges"].sum("world") > 0).all()


def test_every_point_says_whether_a_nudge_was_possible_and_why_not(limited: xr.Dataset) -> None:
    """Nothing is charged where there is a reason; the reason is the calendar's where the calendar has one."""
    assert ((limited["reason"] == 0) == limited["eligible"]).all()
    assert (limited["probability"].values[~limited["eligible"].values] == 0.0).all()
    assert not (limited["nudged"] & ~limited["eligible"]).any()
    assert list(limited["reason"].attrs["words"]) == list(WORDS)
    closed = np.broadcast_to(timetable().closed[None, :, None], limited["reason"].shape)
    asked = (limited["available"] & ~limited["opened"]).values
    reason = limited["reason"].values
    assert (reason[asked & (closed > 0)] == closed[asked & (closed > 0)]).all()
    first = np.arange(STEPS) < LIMITS.run_in
    assert (reason[..., first][(asked & (closed == 0))[..., first]] == RUN_IN).all()
    assert {"unavailable", "opened", "hours", "quiet", "cap", "run-in", "budget", "resting"} <= {
        WORDS[code] for code in np.unique(reason)
    }


def test_a_cap_holds_only_as_long_as_it_must() -> None:
    """A rule that always nudges makes every nudge that its caps allow, and says "cap" everywhere else."""
    always = op.Policy(revealer=op.Always(), budget=op.Budget(80), limits=op.Limits(per_week=2), name="always")
    slot = np.arange(STEPS)[None]
    calendar = op.Timetable(closed=np.zeros((1, STEPS)), hours=12.0 * slot)
    data = op.simulate(
        op.synthetic_worlds(1, seed=3), always, horizon=STEPS, replicates=1, seed=2, progress=False, timetable=calendar
    )
    nudged = data["nudged"].values.ravel()
    assert np.flatnonzero(nudged).tolist() == [week + i for week in range(0, STEPS, 14) for i in (0, 1)]
    assert (data["reason"].values.ravel()[~nudged] == CAP).all()


def test_an_open_calendar_changes_nothing() -> None:
    """With everything open, and limits that limit nothing, every number is that of a run without either."""
    plain = run(policies(None), None)
    wide = op.Limits(per_week=500)
    slot = np.tile(np.arange(STEPS), (PEOPLE, 1))
    calendar = op.Timetable(closed=np.zeros((PEOPLE, STEPS)), hours=12.0 * slot, day=slot // 2)
    for limits in (None, wide):
        same = run(policies(limits), calendar)
        for name in plain.data_vars:
            np.testing.assert_array_equal(same[name].values, plain[name].values, err_msg=str(name))


def test_rules_that_look_ahead_spend_what_the_calendar_leaves_room_for() -> None:
    """Where two thirds of the points are closed, naive and PACE still spend the whole budget."""
    closed = np.where(np.arange(STEPS) % 3 > 0, HOURS, 0)
    calendar = op.Timetable(closed=np.tile(closed, (PEOPLE, 1)))
    two = [
        op.Policy(revealer=rule, budget=op.Budget(9), name=name)
        for name, rule in {"naive": op.FixedRate(), "PACE": op.Pace(value="paper")}.items()
    ]
    worlds = op.synthetic_worlds(PEOPLE, seed=3)
    data = op.simulate(worlds, two, horizon=STEPS, replicates=20, seed=2, progress=False, timetable=calendar)
    spent = data["spent"].mean(("world", "replicate")).values
    assert spent[0] == pytest.approx(9.0)
    assert spent[1] > 8.0
    rate = data["probability"].values[0]
    np.testing.assert_allclose(rate[..., ::3], 9 / (STEPS / 3))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"closed": np.ones((2, 5))}, r"closed is 1; expected one of 0 \(eligible\), 4 \(waiting\)"),
        ({"closed": np.zeros(5)}, r"closed has shape \[5\]; expected 2 axes"),
        ({"closed": np.zeros((2, 5)), "hours": np.zeros((2, 4))}, r"hours has 4 entries on axis 1; expected 5"),
        ({"closed": np.zeros((1, 3)), "hours": [[0.0, 2.0, 1.0]]}, r"hours of participant 0 fall after step 2"),
        ({"closed": np.zeros((2, 5)), "day": np.full((2, 5), 0.5)}, r"day holds 0.5; expected whole numbers"),
        ({"closed": np.zeros((2, 5)), "start": [0, -1]}, r"start holds -1; expected numbers from 0 to"),
    ],
)
def test_what_is_no_timetable(given: dict[str, Any], message: str) -> None:
    """It says what was given, and what was expected."""
    with pytest.raises(InputError, match=f"^{message}"):
        op.Timetable(**given)


@pytest.mark.parametrize(
    ("limits", "calendar", "message"),
    [
        (op.Limits(per_week=1), None, "^the timetable has no hours; expected them"),
        (op.Limits(per_day=1), op.Timetable(closed=np.zeros((PEOPLE, STEPS))), "^the timetable has no days"),
        (
            None,
            op.Timetable(closed=np.zeros((PEOPLE, 9))),
            "^the timetable is for 3 participants and 9 steps; expected",
        ),
        (None, 3, "^timetable is 3; expected a Timetable"),
    ],
)
def test_what_does_not_fit_is_refused(limits: Any, calendar: Any, message: str) -> None:
    """Limits need what they go by, and a timetable has a row for each world."""
    with pytest.raises(InputError, match=message):
        run(policies(limits)[:1], calendar)
