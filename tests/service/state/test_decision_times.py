"""Windows, waiting times, decision times: by the participant's own clock, also where clocks change."""

import datetime as dt
import json
from typing import Any

import msgspec
import pytest
from course import answer_of, launch
from study_text import study_text

from opportune.service.commands.base import NOT_ASKED, SYSTEM
from opportune.service.commands.corrections import CorrectZone
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.expiry import expire_all
from opportune.service.commands.participants import Enrol
from opportune.service.commands.rewards import Reward
from opportune.service.monitoring.alerts import Alerts
from opportune.service.problems import Refused
from opportune.service.record import events
from opportune.service.record.database import Database
from opportune.service.record.queries import alert_rows, decision_row, decision_rows, event_rows, participant_row
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.state.schedule import day_of, step_at, time_for, time_of
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify

TIMES = StudyInForce.from_text(study_text(times=True))  # at 09:00 and 18:00
SENSED = {"time_of_day": "morning", "stress": 3, "sleep": "poor"}


def at(text: str) -> int:
    """A time."""
    return clock.from_iso(text)


BERLIN = "Europe/Berlin"
DAY = 24 * clock.HOUR
MOMENTS = [
    # Enrolled on Saturday, 28 March 2026, 10:00 in Berlin; clocks go forward on Sunday at 02:00 (01:00 UTC).
    ("2026-03-28T09:00:00Z", 1, 1, "at enrolment: the morning's point has passed and is the latest"),
    ("2026-03-28T16:44:00Z", 1, 1, "17:44, more than a quarter of an hour early for the evening's"),
    ("2026-03-28T16:46:00Z", 1, 2, "17:46 counts as 18:00"),
    ("2026-03-28T22:59:59Z", 1, 2, "one second to midnight"),
    ("2026-03-28T23:00:00Z", 2, 2, "midnight: the next day, its first point still to come"),
    ("2026-03-29T06:44:00Z", 2, 2, "08:44 in summer time"),
    ("2026-03-29T06:46:00Z", 2, 3, "08:46 in summer time: an hour earlier by UTC than the day before"),
    ("2026-03-29T21:59:59Z", 2, 4, "one second to midnight, in summer time"),
    ("2026-03-29T22:00:00Z", 3, 4, "midnight, in summer time: this day had 23 hours"),
    # Clocks go back on 25 October 2026 at 03:00 (01:00 UTC).
    ("2026-10-24T22:00:00Z", 212, 422, "midnight before the day of 25 hours"),
    ("2026-10-25T00:30:00Z", 212, 422, "02:30 the first time"),
    ("2026-10-25T01:30:00Z", 212, 422, "02:30 the second time"),
    ("2026-10-25T07:46:00Z", 212, 423, "08:46 in winter time"),
    ("2026-10-25T22:59:59Z", 212, 424, "one second to midnight"),
    ("2026-10-25T23:00:00Z", 213, 424, "midnight"),
]


@pytest.mark.parametrize(("moment", "day", "step", "why"), MOMENTS, ids=[moment[3] for moment in MOMENTS])
def test_decision_points_are_the_participants(moment: str, day: int, step: int, why: str) -> None:
    """Days and decision points by local time, over both changes of the clock."""
    began = dt.date(2026, 3, 28)
    assert day_of(at(moment), began, BERLIN) == day
    assert step_at(TIMES, at(moment), began, BERLIN) == step


def test_a_time_that_the_day_skips_or_repeats() -> None:
    """A decision time of 02:30 on the day without one has come at 03:00; on the day with two it is one point."""
    night = StudyInForce.from_text(
        study_text(times=True).replace('times = ["09:00", "18:00"]', 'times = ["02:30", "18:00"]')
    )
    began = dt.date(2026, 3, 28)
    assert step_at(night, at("2026-03-29T00:30:00Z"), began, BERLIN) == 2, "01:30"
    assert step_at(night, at("2026-03-29T01:00:00Z"), began, BERLIN) == 3, "03:00, when 02:30 never was"
    twice = [step_at(night, at(f"2026-10-25T0{hour}:30:00Z"), began, BERLIN) for hour in (0, 1)]
    assert twice == [423, 423]


def test_the_same_moment_is_another_day_elsewhere() -> None:
    """Participants live in their own time zones."""
    began = dt.date(2026, 3, 28)
    late = at("2026-03-28T23:30:00Z")
    assert [day_of(late, began, zone) for zone in ("America/New_York", BERLIN, "Asia/Tokyo")] == [1, 2, 2]


def timed(database: Database) -> Writer:
    """A study with decision times, and a participant in Berlin since 28 March 2026, 08:50 local time."""
    writer = Writer(database)
    launch(writer, study_text(times=True), at("2026-03-28T07:00:00Z"))
    writer.do(Enrol(who="staff", received=at("2026-03-28T07:50:00Z"), participant="P1", timezone=BERLIN))
    return writer


def ask(writer: Writer, moment: str) -> dict[str, object]:
    """Ask for a decision at a time."""
    return answer_of(writer.do(Propose(who="app", received=at(moment), participant="P1", given={"sensed": SENSED})))


def test_points_that_nobody_asked_about_are_missing(sqlite: Database) -> None:
    """Mornings stay mornings: what was missed is on record as such, without charge."""
    writer = timed(sqlite)
    assert ask(writer, "2026-03-28T08:00:00Z")["step"] == 1
    assert ask(writer, "2026-03-29T16:00:00Z")["step"] == 4
    rows = decision_rows(sqlite, "P1", limit=10)
    assert [row["reason"] for row in rows] == [None, NOT_ASKED, NOT_ASKED, None]
    assert [row["available"] for row in rows] == [True, False, False, True]
    assert [row["probability"] for row in rows[1:3]] == [0.0, 0.0]
    with pytest.raises(Refused) as refused:
        ask(writer, "2026-03-29T16:05:00Z")
    assert refused.value.code == "decided_already"
    assert verify(sqlite).findings == []


def test_a_window_that_ends_settles_the_nudge(sqlite: Database) -> None:
    """The sweep settles what nobody answered in time, once; an answer after that is late."""
    writer = Writer(sqlite)
    launch(writer, study_text(policy="always"))
    begun = at("2026-03-28T09:00:00Z")
    writer.do(Enrol(who="staff", received=begun, participant="P1"))
    given = {"sensed": SENSED}
    made = answer_of(writer.do(Propose(who="app", received=begun, participant="P1", given=given)))
    assert made["status"] == "nudge"
    window = TIMES.answer_window
    assert made["expires"] == clock.iso(begun + window)
    writer.start()
    assert expire_all(writer, begun + window - 1) == 0
    assert expire_all(writer, begun + window) == 1
    assert expire_all(writer, begun + window) == 0
    writer.stop()
    row = decision_row(sqlite, made["decision"])
    assert row is not None
    assert (row["status"], row["outcome"], row["revealed"]) == ("settled", "unanswered", False)
    assert verify(sqlite).findings == []


def test_who_has_made_all_decisions_is_completed(sqlite: Database) -> None:
    """Once the last reward has come or was given up: not before, nor anybody who has decisions to come."""
    writer = Writer(sqlite)
    launch(writer, study_text(horizon=3, budget=2, policy="never").replace("[10, 20]", "[2]"))
    begun = at("2026-03-28T09:00:00Z")
    names = ("prompt", "awaited", "early")
    writer.write([Enrol(who="staff", received=begun, participant=name) for name in names])
    for name, steps in zip(names, (3, 3, 2), strict=True):
        for number in range(steps):
            ask = Propose(who="app", received=begun, participant=name, given={"sensed": SENSED})
            made = answer_of(writer.do(ask))["decision"]
            if name == "prompt" or number < 2:
                writer.do(Reward(who="app", received=begun, decision=made, reward=1.0))

    def statuses() -> list[str]:
        rows = (participant_row(sqlite, name) for name in names)
        return [row["status"] for row in rows if row is not None]

    writer.start()
    assert expire_all(writer, begun + 1) == 1
    assert statuses() == ["completed", "active", "active"]
    given_up = begun + StudyInForce.from_text(study_text()).reward_window
    assert [expire_all(writer, given_up + i) for i in range(3)] == [1, 1, 0]
    assert statuses() == ["completed", "completed", "active"]
    writer.stop()
    last = event_rows(sqlite, limit=100)[-1]
    assert (last["kind"], last["who"], last["participant"]) == (events.STATUS, SYSTEM, "awaited")
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("default", [None, 0.25])
def test_rewards_that_never_come(sqlite: Database, default: float | None) -> None:
    """They are skipped after the waiting time, or the study's default is taken; which of the two is on record."""
    text = study_text()
    if default is not None:
        text = text.replace("[reward]\n", f"[reward]\ndefault = {default}\n")
    writer = Writer(sqlite)
    launch(writer, text)
    begun = at("2026-03-28T09:00:00Z")
    writer.do(Enrol(who="staff", received=begun, participant="P1"))
    given = {"sensed": SENSED, "opened": True, "reported": {"mood": "low"}}
    asked = [Propose(who="app", received=begun, participant="P1", given=given) for _ in "ab"]
    first, second = (answer_of(reply)["decision"] for reply in writer.write(asked))
    writer.do(Reward(who="app", received=begun, decision=second, reward=1.0))
    due = begun + StudyInForce.from_text(text).reward_window
    writer.start()
    assert expire_all(writer, due - 1) == 0
    assert expire_all(writer, due) == 1
    assert expire_all(writer, due) == 0
    writer.stop()
    row = decision_row(sqlite, first)
    assert row is not None
    assert (row["reward_status"], row["reward"]) == (("skipped", None) if default is None else ("learned", 0.25))
    if default is None:  # better late than never
        assert answer_of(writer.do(Reward(who="app", received=due + 1, decision=first, reward=0.5)))["learned"]
    assert verify(sqlite).findings == []


def test_someone_who_falls_silent_raises_an_alert(sqlite: Database) -> None:
    """Once, until the participant is heard of again."""
    writer = timed(sqlite)
    ask(writer, "2026-03-28T08:00:00Z")
    alerts = Alerts(sqlite)
    alerts.look(at("2026-03-28T20:00:00Z"))
    assert alert_rows(sqlite) == []
    for hour in (0, 1):
        alerts.look(at(f"2026-03-29T1{hour}:00:00Z"))
        assert [(alert["code"], alert["participant"]) for alert in alert_rows(sqlite)] == [("silent", "P1")]
    ask(writer, "2026-03-29T16:00:00Z")
    alerts.look(at("2026-03-29T16:10:00Z"))
    assert alert_rows(sqlite) == []


def test_points_that_nobody_asked_about_have_their_own_times(sqlite: Database) -> None:
    """The day and the time that they were due at, not those of the request that found them missing."""
    writer = timed(sqlite)
    ask(writer, "2026-03-28T08:00:00Z")
    ask(writer, "2026-03-30T16:00:00Z")
    rows = decision_rows(sqlite, "P1", limit=10)
    assert [row["day"] for row in rows] == [1, 1, 2, 2, 3, 3]
    there = [clock.local(row["happened"], BERLIN).strftime("%d %H:%M") for row in rows]
    assert there == ["28 09:00", "28 18:00", "29 09:00", "29 18:00", "30 09:00", "30 18:00"]
    assert len({row["received"] for row in rows[1:]}) == 1
    assert verify(sqlite).findings == []


def test_a_point_soon_after_midnight_may_be_asked_for_before() -> None:
    """A quarter of an hour early is early enough, whichever day that is."""
    night = StudyInForce.from_text(
        study_text(times=True).replace('times = ["09:00", "18:00"]', 'times = ["00:05", "18:00"]')
    )
    began = dt.date(2026, 3, 27)
    moments = ("2026-03-28T22:49:00Z", "2026-03-28T22:50:00Z", "2026-03-28T23:10:00Z", "2026-03-29T15:45:00Z")
    assert [step_at(night, at(moment), began, BERLIN) for moment in moments] == [4, 5, 5, 6]


def test_an_answer_after_the_window_is_late_also_before_the_sweep(sqlite: Database) -> None:
    """Whether someone has looked after the nudge by then makes no difference."""
    writer = Writer(sqlite)
    launch(writer, study_text(policy="always"))
    begun = at("2026-03-28T09:00:00Z")
    for name in ("P1", "P2", "P3"):
        writer.do(Enrol(who="staff", received=begun, participant=name))
    made = [
        answer_of(writer.do(Propose(who="app", received=begun, participant=name, given={"sensed": SENSED})))
        for name in ("P1", "P2", "P3")
    ]
    last = begun + TIMES.answer_window
    told: dict[str, Any] = {"answered": True, "reported": {"mood": "low"}}
    late, in_time, refused = (
        answer_of(writer.do(Answer(who="staff", received=moment, decision=row["decision"], **given)))
        for moment, row, given in zip((last, last - 1, last), made, (told, told, {"answered": False}), strict=True)
    )
    assert (late["outcome"], late["late"], late["revealed"]) == ("unanswered", True, False)
    assert (in_time["outcome"], in_time["late"], in_time["revealed"]) == ("answered", False, True)
    assert (refused["outcome"], refused["late"]) == ("unanswered", False)
    assert verify(sqlite).findings == []


def test_points_come_after_enrolment_and_one_after_the_other(sqlite: Database) -> None:
    """A time that the caller names must be possible; clocks may differ by some minutes."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    begun = at("2026-03-28T09:00:00Z")
    writer.do(Enrol(who="staff", received=begun, participant="P1"))

    def decide(moment: int) -> dict[str, object]:
        given = {"sensed": SENSED}
        return answer_of(writer.do(Propose(who="app", received=begun + DAY, at=moment, participant="P1", given=given)))

    with pytest.raises(Refused, match="enrolled on 2026-03-28"):
        decide(begun - clock.HOUR)
    assert decide(begun + 2 * clock.HOUR)["step"] == 1
    with pytest.raises(Refused, match="expected a time after the latest decision point"):
        decide(begun + clock.HOUR)
    assert decide(begun + 2 * clock.HOUR - clock.MINUTE)["step"] == 2, "a clock that was put right"
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("sharing", [{}, {"shared": True}, {"pooled": True}], ids=["own", "shared", "pooled"])
@pytest.mark.parametrize("policy", ["always", "PACE", "PD2"])
def test_nobody_is_nudged_at_a_moment_that_is_past(sqlite: Database, policy: str, sharing: dict[str, Any]) -> None:
    """What a phone showed offline, and what is told after the window: no nudge, no charge; it is learned from."""
    writer = Writer(sqlite)
    launch(writer, study_text(policy=policy, budget=60, **sharing))
    begun = at("2026-03-28T09:00:00Z")
    for name in ("P1", "P2"):
        writer.do(Enrol(who="staff", received=begun, participant=name))
    last, made = TIMES.answer_window, []
    for number in range(60):
        moment = begun + number * DAY
        kinds: tuple[dict[str, Any], ...] = ({}, {"shown": "walk"}, {}, {})
        late = (0, last + clock.HOUR, last, last - 1)[number % 4]
        given = {"sensed": {**SENSED, "stress": number % 3}, **kinds[number % 4]}
        for name in ("P1", "P2"):
            ask = Propose(who="app", received=moment + late, at=moment, participant=name, given=given)
            found = answer_of(writer.do(ask))
            made.append((number % 4, found))
            if found["status"] == "nudge":
                told = {"mood": "low"}
                answer = Answer(
                    who="staff", received=moment + late, decision=found["decision"], answered=True, reported=told
                )
                answer_of(writer.do(answer))
            reward = Reward(who="app", received=moment + late, decision=found["decision"], reward=0.5)
            assert answer_of(writer.do(reward))["learned"]
    for kind, found in made:
        if kind in {1, 2}:
            assert (found["nudge"], found["probability"], found["status"]) == (False, 0.0, "settled")
            assert found["why"].startswith("No nudge: the moment was past")
        if kind == 1:
            assert found["action"] == "walk"
    assert any(found["nudge"] for kind, found in made if kind in {0, 3}), "the control"
    assert verify(sqlite).findings == []


def at_times(*times: str) -> StudyInForce:
    """A study with these decision times."""
    listed = ", ".join(f'"{time}"' for time in times)
    return StudyInForce.from_text(study_text(times=True).replace('times = ["09:00", "18:00"]', f"times = [{listed}]"))


def test_a_point_that_is_asked_for_the_day_before_counts_to_its_own_day(sqlite: Database) -> None:
    """At eight minutes to midnight, about five past."""
    writer = Writer(sqlite)
    launch(writer, at_times("00:05", "18:00").text)
    writer.do(Enrol(who="staff", received=at("2026-03-28T16:00:00Z"), participant="P1", timezone=BERLIN))
    ask(writer, "2026-03-28T17:00:00Z")
    ask(writer, "2026-03-28T22:52:00Z")
    ask(writer, "2026-03-29T16:00:00Z")
    rows = decision_rows(sqlite, "P1", limit=10)
    assert [(row["step"], row["day"]) for row in rows] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert rows[0]["happened"] == at("2026-03-28T16:00:00Z"), "what was due before enrolment is of that moment"
    assert verify(sqlite).findings == []


@pytest.mark.parametrize(
    ("times", "steps"),
    [
        (("09:00", "09:10"), [("08:44", 0), ("08:45", 1), ("09:00", 1), ("09:04", 1), ("09:05", 2), ("09:10", 2)]),
        (("00:05", "23:55"), [("23:39", 1), ("23:40", 2), ("23:55", 2), ("23:59", 2)]),
        (("00:01", "12:00"), [("23:45", 2), ("23:46", 3)]),
        (("12:00", "23:59"), [("00:00", 0), ("11:44", 0), ("11:45", 1), ("23:43", 1), ("23:44", 2)]),
    ],
)  # fmt: skip
def test_times_that_lie_close_are_told_apart(times: tuple[str, ...], steps: list[tuple[str, int]]) -> None:
    """A moment belongs to the next decision time only if it is nearer to that than to the one before."""
    running, began = at_times(*times), dt.date(2026, 6, 1)
    found = [(time, step_at(running, at(f"2026-06-01T{time}:00Z"), began, "UTC")) for time, _ in steps]
    assert found == steps


def test_when_a_time_comes_that_the_day_skips() -> None:
    """Clocks go forward from two to three: what was due between comes then, in order with what follows."""
    running, began = at_times("02:30", "03:10"), dt.date(2026, 3, 28)
    due = [time_of(running, step, began, BERLIN) for step in (1, 2, 3, 4, 5)]
    assert [clock.iso(moment)[:16] for moment in due] == [
        "2026-03-28T01:30", "2026-03-28T02:10", "2026-03-29T01:00", "2026-03-29T01:10", "2026-03-30T00:30",
    ]  # fmt: skip
    for step, moment in enumerate(due, start=1):
        assert step_at(running, moment, began, BERLIN) in {step, step + 1}
    lord_howe = at_times("02:15", "12:00")  # where it is half an hour
    assert clock.iso(time_of(lord_howe, 3, dt.date(2026, 10, 3), "Australia/Lord_Howe"))[:16] == "2026-10-03T15:30"


def test_whoever_asks_too_soon_is_told_when_to_ask(sqlite: Database) -> None:
    """Before the first decision point, and between two; not after the last."""
    writer = Writer(sqlite)
    launch(writer, study_text(times=True, horizon=30))
    writer.do(Enrol(who="staff", received=at("2026-03-28T06:00:00Z"), participant="P1", timezone=BERLIN))
    with pytest.raises(Refused, match=r"the first decision point comes at 09:00 on 2026-03-28 in Europe/Berlin$"):
        ask(writer, "2026-03-28T07:00:00Z")
    ask(writer, "2026-03-28T08:00:00Z")
    with pytest.raises(
        Refused, match=r"has a decision already; the next comes at 18:00 on 2026-03-28 in Europe/Berlin$"
    ):
        ask(writer, "2026-03-28T08:30:00Z")
    ask(writer, "2026-04-11T16:00:00Z")
    with pytest.raises(Refused, match=r"decision point 30 of 'P1' has a decision already$"):
        ask(writer, "2026-04-11T16:30:00Z")


TRAVELS = """
[study]
name = "travels"
horizon = 40
actions = ["rest", "walk"]
budgets = [10]
decisions_per_day = 2

[variables.weekend]
schedule = "weekend"

[variables.day]
schedule = "day of study"

[variables.time]
schedule = "time of day"
names = ["am", "pm"]

[variables.stress]
levels = ["low", "high"]

[reward]
formula = "action * stress + weekend + day + time"
noise_sd = 1.0
theta_bound = 3.0

[actions.walk]
never_if = 'weekend == "weekend"'

[participants]
planned = 4
first_day = 2026-12-01

[schedule]
times = ["10:00", "16:00"]
timezone = "Europe/Berlin"

[[policies]]
kind = "always"
"""


def travelling(database: Database, enrolled: str, text: str = TRAVELS) -> Writer:
    """Somebody who takes part in a study whose walks are for workdays, in Berlin."""
    writer = Writer(database)
    launch(writer, text, at("2026-12-01T00:00:00Z"))
    writer.do(Enrol(who="staff", received=at(enrolled), participant="P1"))
    return writer


def known(writer: Writer, moment: str, **sensed: Any) -> dict[str, Any]:
    """What is known of a decision point that is asked about at a time."""
    given = {"sensed": {"stress": "low", **sensed}}
    answer = answer_of(writer.do(Propose(who="app", received=at(moment), participant="P1", given=given)))
    row = decision_row(writer.database, str(answer["decision"]))
    assert row is not None
    return {**json.loads(row["sensed"]), "walks": row["action"] == "walk", "zone": row["timezone"]}


def zone_of(database: Database, column: str = "timezone") -> Any:
    """A participant's time zone as it is stored."""
    row = participant_row(database, "P1")
    assert row is not None
    return row[column]


def sweep(writer: Writer, moment: int) -> None:
    """What the service does by itself at a time."""
    writer.start()
    expire_all(writer, moment)
    writer.stop()


@pytest.mark.parametrize("again", [False, True], ids=["the same process", "a fresh process"])
@pytest.mark.parametrize("enrolled", ["2026-12-01T09:30:00Z", "2026-12-01T16:30:00Z"], ids=["midday", "next day there"])
def test_weekends_are_those_of_where_somebody_is(sqlite: Database, enrolled: str, again: bool) -> None:
    """After a flight weekends and days of the study go on by the local date; forbidden actions stay forbidden."""
    writer = travelling(sqlite, enrolled)
    assert known(writer, "2026-12-02T09:05:00Z")["day"] == 2
    writer.do(CorrectZone(who="staff", received=at("2026-12-02T10:00:00Z"), participant="P1", timezone="Asia/Tokyo",
                          reason="travels"))  # fmt: skip
    writer = Writer(sqlite) if again else writer
    for day in (4, 5, 6, 7):
        found = known(writer, f"2026-12-{day:02d}T01:10:00Z")  # ten past ten
        assert (found["day"], found["zone"], found["time"]) == (day, "Asia/Tokyo", "am")
        assert found["weekend"] == ("weekend" if day in {5, 6} else "weekday")
        assert not (found["walks"] and day in {5, 6})
    assert not verify(sqlite).findings


@pytest.mark.parametrize("swept", [False, True], ids=["at a decision", "by the sweep"])
def test_a_time_zone_may_change_from_a_date_on(
    sqlite: Database, swept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Said beforehand, it holds from midnight of that date by the new clock, on record; the bundle knows it before."""
    writer = travelling(sqlite, "2026-12-01T09:30:00Z")
    known(writer, "2026-12-02T09:05:00Z")
    planned = CorrectZone(who="staff", received=at("2026-12-02T10:00:00Z"), participant="P1", timezone="Asia/Tokyo",
                          from_date=dt.date(2026, 12, 5), reason="flies")  # fmt: skip
    answer = answer_of(writer.do(planned))
    assert (answer["timezone"], answer["next_timezone"], answer["next_from"]) == (BERLIN, "Asia/Tokyo", "2026-12-05")
    running = StudyInForce.from_text(TRAVELS)
    person = writer.memory.participants["P1"]
    assert [time_for(running, step, person) for step in (7, 9)] == [
        at("2026-12-04T09:00:00Z"),
        at("2026-12-05T01:00:00Z"),
    ]
    assert known(writer, "2026-12-04T09:05:00Z")["zone"] == BERLIN
    sweep(writer, at("2026-12-04T14:59:59Z"))
    assert zone_of(sqlite) == BERLIN, "a second to midnight in Tokyo"
    if swept:
        sweep(writer, at("2026-12-04T15:00:00Z"))
        assert zone_of(sqlite) == "Asia/Tokyo"
    with pytest.raises(Refused, match="stress is 'none'"):
        known(writer, "2026-12-05T01:05:00Z", stress="none")
    assert "batch failed" not in capsys.readouterr().out, "what is refused is refused before the clock is changed"
    found = known(writer, "2026-12-05T01:05:00Z")
    assert (found["zone"], found["weekend"], found["day"]) == ("Asia/Tokyo", "weekend", 5)
    changes = [row for row in event_rows(sqlite, limit=100) if row["kind"] == events.ZONE_CORRECTED]
    assert [(row["who"], json.loads(row["body"])["timezone"]) for row in changes] == [
        ("staff", BERLIN),
        (SYSTEM, "Asia/Tokyo"),
    ]
    assert not verify(sqlite).findings


def test_a_planned_change_can_be_taken_back(sqlite: Database) -> None:
    """The time zone that holds, said again, takes the place of what was planned; days past or far off are refused."""
    writer = travelling(sqlite, "2026-12-01T09:30:00Z")
    zone = CorrectZone(who="staff", received=at("2026-12-02T10:00:00Z"), participant="P1", timezone="Asia/Tokyo",
                       reason="flies")  # fmt: skip
    for date in (dt.date(2026, 12, 2), dt.date(2026, 11, 1), dt.date(2028, 1, 1), dt.date(9999, 12, 31)):
        with pytest.raises(Refused, match="expected a date after 2026-12-02, within a year"):
            writer.do(msgspec.structs.replace(zone, from_date=date))
    writer.do(msgspec.structs.replace(zone, from_date=dt.date(2026, 12, 5)))
    writer.do(msgspec.structs.replace(zone, timezone=BERLIN))
    assert zone_of(sqlite, "next_timezone") is None
    sweep(writer, at("2026-12-08T00:00:00Z"))
    assert zone_of(sqlite) == BERLIN
    assert not verify(sqlite).findings


WRONG = [{"time": "pm"}, {"day": 7}, {"weekend": "weekend"}, {"day": 2.5}, {"time": "noon"}]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: ",".join(f"{k}={v}" for k, v in wrong.items()))
def test_what_the_calendar_says_is_not_the_apps_to_say(sqlite: Database, wrong: dict[str, Any]) -> None:
    """A value that follows the calendar is refused where it differs; the same one is taken."""
    writer = travelling(sqlite, "2026-12-01T09:30:00Z")
    with pytest.raises(Refused, match=f"{next(iter(wrong))} is"):
        known(writer, "2026-12-02T09:05:00Z", **wrong)
    assert known(writer, "2026-12-02T09:05:00Z", time="am", day=2, weekend="weekday")["time"] == "am"


def test_without_decision_times_dates_still_count(sqlite: Database) -> None:
    """Whoever asks when they like is asked about the day that it is there, not about a number of decisions."""
    writer = travelling(sqlite, "2026-12-01T09:30:00Z", TRAVELS.replace('times = ["10:00", "16:00"]\n', ""))
    found = [known(writer, f"2026-12-{day:02d}T09:10:00Z", time="pm") for day in (2, 4, 5, 6, 7)]
    assert [one["day"] for one in found] == [2, 4, 5, 6, 7]
    assert [one["weekend"] for one in found] == ["weekday", "weekday", "weekend", "weekend", "weekday"]
    assert not any(one["walks"] for one in found[2:4])
    assert not verify(sqlite).findings
