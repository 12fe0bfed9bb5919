"""What raises an alert by itself: nudges that nobody looked at, and nudges spent faster or slower than planned."""

import threading
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from course import BEGIN, answer_of, launch
from site_over_http import SENSED, site_on
from sqlalchemy import event, select, update
from sqlalchemy.exc import IntegrityError
from study_text import study_text

from opportune.live.agent import Agent
from opportune.service.commands.administration import Close
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.expiry import expire_all
from opportune.service.commands.participants import Enrol, SetStatus
from opportune.service.monitoring import checks
from opportune.service.monitoring.alerts import CODES, Alerts
from opportune.service.monitoring.checks import even_plan, judged
from opportune.service.record import queries, tables
from opportune.service.record.database import Database
from opportune.service.record.queries import alert_rows, open_nudges
from opportune.service.record.writer import Writer
from opportune.service.state import clock

WINDOW = 120 * clock.MINUTE  # of the example


def nudged(writer: Writer, *names: str, at: int = BEGIN) -> list[str]:
    """Participants with an open nudge each."""
    found = []
    for name in names:
        writer.do(Enrol(who="staff", received=at, participant=name))
        for _ in range(100):
            ask = Propose(who="app", received=at, participant=name, given={"sensed": SENSED})
            made = answer_of(writer.do(ask))
            if made["status"] == "nudge":
                found.append(made["decision"])
                break
    assert len(found) == len(names), "the control: there is a nudge for each"
    return found


def alerts_of(database: Database, code: str) -> list[str | None]:
    """Who has an open alert of a kind."""
    return [alert["participant"] for alert in alert_rows(database) if alert["code"] == code]


def test_a_nudge_that_nobody_looks_at_is_red(database: Database) -> None:
    """From half of its window on, until someone looks; the one that was on somebody's list is not."""
    writer = Writer(database)
    launch(writer, study_text(budget=60))
    seen, unseen = nudged(writer, "P1", "P2")
    alerts = Alerts(database)
    alerts.viewed.note(row for row in open_nudges(database, limit=10) if row["id"] == seen)
    alerts.look(BEGIN + WINDOW // 2 - clock.MINUTE)
    assert alerts_of(database, "unshown") == []
    alerts.look(BEGIN + WINDOW // 2 + clock.MINUTE)
    assert alerts_of(database, "unshown") == ["P2"]
    (alert,) = alert_rows(database)
    assert alert["level"] == CODES["unshown"][0] == "red"
    assert "within 59 minutes" in alert["text"]
    other = Alerts(database)  # of another process
    other.viewed.note(row for row in open_nudges(database, limit=10) if row["id"] == unseen)
    other.look(BEGIN + WINDOW // 2 + 3 * clock.MINUTE)
    assert alerts_of(database, "unshown") == []


@pytest.mark.parametrize("ending", ["window", "answer", "taken", "app"])
def test_a_nudge_whose_window_ended_unseen_stays_red_for_a_day(sqlite: Database, ending: str) -> None:
    """The controls: it was answered, someone took the call, or the app shows nudges itself."""
    writer = Writer(sqlite)
    text = study_text(budget=60)
    launch(writer, text.replace("[serve]\n", '[serve]\nnudges_by = "app"\n') if ending == "app" else text)
    (decision,) = nudged(writer, "P1")
    if ending == "answer":
        answer_of(writer.do(Answer(who="staff", received=BEGIN, decision=decision, answered=False)))
    if ending == "taken":
        row = {"decision": decision, "participant": "P1", "tries": 0, "changed": BEGIN}
        with sqlite.writing.begin() as connection:
            connection.execute(tables.calls.insert(), row)
    writer.start()
    expire_all(writer, BEGIN + WINDOW + clock.MINUTE)
    writer.stop()
    alerts = Alerts(sqlite)
    alerts.look(BEGIN + 3 * clock.HOUR)
    assert alerts_of(sqlite, "unshown") == (["P1"] if ending == "window" else [])
    alerts.look(BEGIN + 27 * clock.HOUR)
    assert alerts_of(sqlite, "unshown") == []


def test_what_is_on_the_call_list_counts_as_looked_at(sqlite: Database) -> None:
    """Over HTTP: the list, or one decision, read by staff; an app or an analyst reading it changes nothing."""
    with site_on(sqlite, budget=60) as site:
        writer, now = Writer(sqlite), clock.now()
        (first,) = nudged(writer, "P1", at=now - 3 * clock.MINUTE)
        (second,) = nudged(writer, "P2", at=now - 2 * clock.MINUTE)
        (third,) = nudged(writer, "P3", at=now - clock.MINUTE)
        for role in ("app", "analyst"):
            assert site.get(f"decisions/{third}", role).status_code == 200
        assert site.get(f"decisions/{second}", "staff").status_code == 200
        page = site.get("calls?limit=1").json()
        assert [item["decision"] for item in page["items"]] == [first]
    with sqlite.reading.connect() as connection:
        assert set(connection.execute(select(tables.viewed.c.decision)).scalars()) == {first, second}


def twenty_points(writer: Writer) -> None:
    """Four participants, twenty decision points each, at which nothing could be spent."""
    names = [f"P{i}" for i in range(4)]
    writer.write([Enrol(who="staff", received=BEGIN, participant=name) for name in names])
    away = {"sensed": SENSED, "available": False, "reason": "driving"}
    for _ in range(20):
        writer.write([Propose(who="app", received=BEGIN, participant=name, given=away) for name in names])


@pytest.mark.parametrize("shared", [False, True])
def test_pacing_far_from_plan_is_yellow(sqlite: Database, shared: bool) -> None:
    """Half of the decision points are over and nothing is spent; then too much is; near the plan there is no alert."""
    writer = Writer(sqlite)
    launch(writer, study_text(budget=20, planned=4, horizon=40, shared=shared, policy="naive"))
    twenty_points(writer)
    alerts = Alerts(sqlite)
    table = tables.study if shared else tables.participants
    for number, (each, expected) in enumerate([(0.0, "slower"), (10.0, None), (19.9, "faster"), (9.0, None)]):
        with sqlite.writing.begin() as connection:
            connection.execute(update(table).values(spent=each * (4 if shared else 1)))
        alerts.look(BEGIN + (number + 1) * clock.HOUR)
        found = [alert for alert in alert_rows(sqlite) if alert["code"] == "pacing"]
        assert [alert["level"] for alert in found] == ["yellow"] * (expected is not None)
        assert all(f"spent {expected} than planned" in alert["text"] for alert in found)


def test_those_who_left_a_shared_budget_are_not_planned_for(sqlite: Database) -> None:
    """With three of four gone early, the one who is left may spend what was theirs."""
    writer = Writer(sqlite)
    launch(writer, study_text(budget=10, planned=4, horizon=40, shared=True, policy="naive"))
    names = [f"P{i}" for i in range(4)]
    writer.write([Enrol(who="staff", received=BEGIN, participant=name) for name in names])
    away = {"sensed": SENSED, "available": False, "reason": "driving"}
    for _ in range(20):
        writer.do(Propose(who="app", received=BEGIN, participant="P0", given=away))
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.study).values(spent=20.0))
    alerts = Alerts(sqlite)
    alerts.look(BEGIN + clock.HOUR)
    assert alerts_of(sqlite, "pacing") == [None], "the control: far more than a quarter of the plan"
    for name in names[1:]:
        writer.do(SetStatus(who="staff", received=BEGIN, participant=name, status="withdrawn", reason="moved"))
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.study).values(spent=20.0))
    alerts.look(BEGIN + 2 * clock.HOUR)
    assert alerts_of(sqlite, "pacing") == []


def test_nudges_at_random_moments_are_as_planned() -> None:
    """The interval holds what falls on moments at random in nearly all studies, and is not so wide that all do."""
    rng = np.random.default_rng(1)
    budget, total, people, studies = 10, 100, 20, 2000
    for points in (15, 50, 85):
        spent = rng.hypergeometric(budget, total - budget, points, size=(studies, people)).sum(axis=1)
        plans = [(points, total)] * people
        wrong = sum(bool(judged(*even_plan(budget, plans), float(found))) for found in spent)
        assert wrong <= 0.005 * studies
        expected = people * budget * points / total
        assert judged(*even_plan(budget, plans), 0.4 * expected)
        assert not judged(*even_plan(budget, plans), 0.95 * expected)
    assert not judged(*even_plan(budget, [(4, total)] * 10), 0.0), "too early to tell"


@pytest.mark.parametrize("shared", [False, True])
def test_pacing_goes_by_what_the_study_may_expect(sqlite: Database, shared: bool) -> None:
    """A rule that pays early to learn is not too fast; twice as much is, and half as much is too slow."""
    from opportune.service.monitoring import forecast
    from opportune.service.state.study import StudyInForce

    text = study_text(budget=20, planned=4, horizon=200, shared=shared)
    writer, running = Writer(sqlite), StudyInForce.from_text(text)
    launch(writer, text)
    found = forecast.simulated(running)
    assert found is not None
    assert found.by(200)[0] <= 20.0 + 1e-9
    assert found.by(20)[0] > 1.5 * 2.0, "the control: an even pace would be a tenth"
    forecast.keep(sqlite, running, found)
    forecast.keep(sqlite, running, found)  # another process may have
    twenty_points(writer)
    alerts = Alerts(sqlite)
    table = tables.study if shared else tables.participants
    mean = found.by(20)[0]
    for number, (each, said) in enumerate([(mean, []), (2.2 * mean, ["faster"]), (0.2 * mean, ["slower"])]):
        with sqlite.writing.begin() as connection:
            connection.execute(update(table).values(spent=each * (4 if shared else 1)))
        alerts.look(BEGIN + (number + 1) * clock.HOUR)
        words = [alert["text"].split()[3] for alert in alert_rows(sqlite) if alert["code"] == "pacing"]
        assert words == said
        alerts.clear("pacing")


@pytest.mark.parametrize("name", ["cardiac-calls", "stress-messages"])
def test_examples_with_a_budget_have_something_to_expect(name: str) -> None:
    """Also where calls depend on staff's hours and limits; a run-in has none."""
    from opportune.service.monitoring import forecast
    from opportune.service.state.study import StudyInForce

    text = files("opportune.study.examples").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    running = StudyInForce.from_text(text)
    found = forecast.simulated(running)
    assert found is not None
    assert running.amount is not None
    assert 0.5 * running.amount < found.mean[-1] <= running.amount
    assert found.by(running.run_in)[0] == 0.0 < found.by(running.run_in + 10)[0]


def test_what_to_expect_is_worked_out_beside(sqlite: Database) -> None:
    """In a process of its own, once for each study file; a file without truth has nothing to expect."""
    from opportune.service.monitoring import forecast
    from opportune.service.state.study import StudyInForce

    text = study_text(budget=5, planned=4, horizon=20)
    launch(Writer(sqlite), text)
    running = StudyInForce.from_text(text)
    forecast.start_forecast(sqlite.url, running).join(timeout=120)
    with sqlite.reading.connect() as connection:
        found = forecast.stored(connection, running)
    assert found == forecast.simulated(running)
    bound = text.replace("noise_sd = 0.5\n", "noise_sd = 0.5\ntheta_bound = 5\n")
    served = bound[: bound.index("\n[effects]")] + bound[bound.index("\n[world]") :]
    assert forecast.simulated(StudyInForce.from_text(served)) is None


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("hard", [False, True])
def test_an_overspent_budget_is_red(sqlite: Database, shared: bool, hard: bool) -> None:
    """The database refuses it; where someone has made it not, there is an alert."""
    writer = Writer(sqlite)
    launch(writer, study_text(budget=10, planned=2, horizon=40, shared=shared, hard=hard))
    for name in ("P1", "P2"):
        writer.do(Enrol(who="staff", received=BEGIN, participant=name))
    alerts = Alerts(sqlite)
    alerts.look(BEGIN + clock.HOUR)
    assert alerts_of(sqlite, "overspent") == [], "the control"
    table, amount = ("study", 20) if shared else ("participants", 10)
    who = "" if shared else " WHERE name = 'P2'"
    column = "nudges" if hard else "spent"
    change = f"UPDATE {table} SET {column} = {amount + 1}{who}"
    with pytest.raises(IntegrityError), sqlite.writing.begin() as connection:
        connection.exec_driver_sql(change)
    with sqlite.writing.begin() as connection:
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
        connection.exec_driver_sql(change)
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = OFF")
    alerts.look(BEGIN + 2 * clock.HOUR)
    assert alerts_of(sqlite, "overspent") == [None if shared else "P2"]
    assert [alert["level"] for alert in alert_rows(sqlite) if alert["code"] == "overspent"] == ["red"]


def test_rewards_that_were_given_up_are_found_by_their_index(sqlite: Database) -> None:
    """However long the record is; without the index all of it would be read, once a minute."""

    def plan() -> str:
        opened = Database(sqlite.url)  # a connection that has planned nothing yet
        query = "EXPLAIN QUERY PLAN SELECT received FROM events WHERE kind = ? ORDER BY seq DESC LIMIT 1"
        with opened.reading.connect() as connection:
            found = str(connection.exec_driver_sql(query, ("skipped",)).all())
        opened.close()
        return found

    assert "events_skipped" in plan()
    with sqlite.writing.begin() as connection:
        connection.exec_driver_sql("DROP INDEX events_skipped")
    assert "events_skipped" not in plan()


def test_what_is_overdue_is_found_by_its_index(sqlite: Database) -> None:
    """Open nudges and rewards that are late, and nothing of the decisions that are over; asked every few seconds."""

    def plans() -> str:
        opened = Database(sqlite.url)  # a connection that has planned nothing yet
        asked: list[tuple[str, Any]] = []

        @event.listens_for(opened.reading, "before_cursor_execute")
        def _hear(_connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
            asked.append((statement, values))

        queries.overdue(opened, BEGIN)
        queries.open_nudges(opened, limit=10)
        with opened.reading.connect() as connection:
            driver: Any = connection.connection.driver_connection
            selects = [(text, values) for text, values in asked if text.startswith("SELECT")]
            found = "\n".join(
                str(driver.execute(f"EXPLAIN QUERY PLAN {text}", values).fetchall()) for text, values in selects
            )
        opened.close()
        return found

    assert plans().count("decisions_open") == 2
    assert plans().count("decisions_due") == 1
    assert "TEMP B-TREE" not in plans()  # they come in order
    with sqlite.writing.begin() as connection:
        connection.exec_driver_sql("DROP INDEX decisions_open")
    assert "TEMP B-TREE" in plans()


DAY = 24 * clock.HOUR


def test_a_fallback_is_red_while_it_is_in_use(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for ever: a later one is raised anew. An alert that could not be stored at once is made up for."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    alerts = Alerts(sqlite)
    for turn in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(Agent, "propose_at", lambda *_, **__: 1 / 0)
            ask = Propose(who="app", received=BEGIN + turn, participant="P1", given={"sensed": SENSED})
            assert answer_of(writer.do(ask))["mode"] == "fallback"
        alerts.look(BEGIN + (4 * turn + 1) * DAY)
        assert alerts_of(sqlite, "fallback") == ["P1"]
        ask = Propose(who="app", received=BEGIN + turn, participant="P1", given={"sensed": SENSED})
        assert answer_of(writer.do(ask))["mode"] == "learned"
        alerts.look(BEGIN + (4 * turn + 2) * DAY)
        assert alerts_of(sqlite, "fallback") == []
    assert len(queries.rows(sqlite, select(tables.alerts).where(tables.alerts.c.code == "fallback"))) == 2


def test_what_was_mended_is_no_alert_any_more(sqlite: Database) -> None:
    """A decision that could not be made, until one is; states that were made again, for a day."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    alerts, now = Alerts(sqlite), clock.now()
    alerts.raise_alert("red", "undecided", "P1", "A decision could not be made.")
    alerts.raise_alert("yellow", "rebuilt", None, "A stored state could not be read.")
    alerts.look(now + clock.HOUR)
    assert {alert["code"] for alert in alert_rows(sqlite)} >= {"undecided", "rebuilt"}
    later = clock.now() + 2 * clock.HOUR
    writer.do(Propose(who="app", received=later, participant="P1", given={"sensed": SENSED}))
    alerts.look(later + clock.HOUR)
    assert alerts_of(sqlite, "undecided") == []
    assert alerts_of(sqlite, "rebuilt") == [None]
    alerts.look(now + 2 * DAY)
    assert alerts_of(sqlite, "rebuilt") == []


def test_an_alert_that_is_raised_again_is_not_over(database: Database) -> None:
    """Neither by a decision in between, nor if it comes while others look; times are those of the rehearsal."""
    writer, time = Writer(database), BEGIN
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    alerts = Alerts(database, now=lambda: time)
    alerts.raise_alert("red", "undecided", "P1", "A decision could not be made.")
    writer.do(Propose(who="app", received=BEGIN + clock.MINUTE, participant="P1", given={"sensed": SENSED}))
    time = BEGIN + 2 * clock.MINUTE
    assert not alerts.raise_alert("red", "undecided", "P1", "A decision could not be made."), "nobody is told twice"
    alerts.look(BEGIN + 3 * clock.MINUTE)
    assert alerts_of(database, "undecided") == ["P1"]
    writer.do(Propose(who="app", received=BEGIN + 4 * clock.MINUTE, participant="P1", given={"sensed": SENSED}))
    alerts.look(BEGIN + 5 * clock.MINUTE)
    assert alerts_of(database, "undecided") == []


def test_alerts_say_how_things_stand(sqlite: Database) -> None:
    """How long there is time, and then that there is none; it stays one alert."""
    writer, alerts = Writer(sqlite), Alerts(sqlite)
    launch(writer, study_text(budget=60))
    nudged(writer, "P1")
    writer.start()
    texts = []
    for moment in (WINDOW - 50 * clock.MINUTE, WINDOW - 20 * clock.MINUTE, WINDOW + clock.MINUTE):
        expire_all(writer, BEGIN + moment)
        alerts.look(BEGIN + moment)
        (alert,) = alert_rows(sqlite)
        texts.append((alert["id"], alert["text"]))
    writer.stop()
    assert len({number for number, _ in texts}) == 1
    assert ["within 50 minutes" in texts[0][1], "within 20" in texts[1][1], "never" in texts[2][1]] == [True] * 3


def test_an_alert_that_another_server_is_about_to_clear_is_raised_anew(new_postgres: str) -> None:
    """Whoever raises it again waits for that server, and finds it cleared."""
    database = Database(new_postgres)
    database.migrate()
    launch(Writer(database), study_text())
    alerts, table = Alerts(database), tables.alerts.c
    assert alerts.raise_alert("red", "unrecorded", None, "Something could not be recorded.")
    told: list[bool] = []
    again = threading.Thread(
        target=lambda: told.append(alerts.raise_alert("red", "unrecorded", None, "Something could not be recorded."))
    )
    with database.writing.begin() as connection:
        connection.execute(update(tables.alerts).where(table.cleared.is_(None)).values(cleared=clock.now()))
        again.start()
        again.join(timeout=0.5)
        assert again.is_alive(), "the control: it waits"
    again.join(timeout=30)
    assert told == [True]
    assert alerts_of(database, "unrecorded") == [None]
    database.close()


@pytest.mark.parametrize("code", ["undecided", "unrecorded", "rebuilt"])
def test_what_is_raised_while_someone_looks_stays(
    database: Database, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """It is looked at the next time."""
    writer = Writer(database)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    alerts, find, who = Alerts(database), checks.CHECKS[code], "P1" if code == "undecided" else None

    def check(connection: Any, *arguments: Any) -> checks.Wanted:
        found = find(connection, *arguments)
        Alerts(database).raise_alert("red", code, who, "Just now.")
        return found

    monkeypatch.setitem(checks.CHECKS, code, check)
    alerts.look(clock.now())
    assert alerts_of(database, code) == [who]


def test_a_nudge_that_the_next_decision_point_overtook_is_red(database: Database) -> None:
    """It was charged, and nobody has looked at it; one that staff say was not reached has been looked at."""
    writer = Writer(database)
    launch(writer, study_text(budget=60))
    nudged(writer, "P1")
    (refused,) = nudged(writer, "P2")
    writer.do(Answer(who="staff", received=BEGIN + clock.MINUTE, decision=refused, answered=False))
    alerts = Alerts(database)
    writer.do(Propose(who="app", received=BEGIN + 20 * clock.MINUTE, participant="P1", given={"sensed": SENSED}))
    alerts.look(BEGIN + 30 * clock.MINUTE)
    (alert,) = [alert for alert in alert_rows(database) if alert["code"] == "unshown"]
    assert alert["participant"] == "P1"
    assert "never looked at" in alert["text"], "nobody can call any more, though its window has not ended"
    alerts.look(BEGIN + 2 * DAY)
    assert alerts_of(database, "unshown") == []


def test_rewards_that_a_default_replaced_are_overdue_all_the_same(sqlite: Database) -> None:
    """Whether the study gives them up or fills them in, they did not come."""
    writer = Writer(sqlite)
    launch(writer, study_text(policy="never").replace("[reward]\n", "[reward]\ndefault = 0.0\n"))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    writer.do(Propose(who="app", received=BEGIN, participant="P1", given={"sensed": SENSED}))
    alerts = Alerts(sqlite)
    alerts.look(BEGIN)
    assert alerts_of(sqlite, "rewards") == []
    writer.start()
    assert expire_all(writer, BEGIN + 30 * DAY) == 1
    writer.stop()
    alerts.look(BEGIN + 30 * DAY + clock.HOUR)
    assert alerts_of(sqlite, "rewards") == [None]
    alerts.look(BEGIN + 32 * DAY)
    assert alerts_of(sqlite, "rewards") == []


def test_nobody_is_missed_after_the_end(sqlite: Database) -> None:
    """A study that is closed expects no decisions."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    alerts = Alerts(sqlite)
    alerts.look(BEGIN + 5 * DAY)
    assert alerts_of(sqlite, "silent") == ["P1"], "the control"
    alerts.raise_alert("red", "undecided", "P1", "A decision could not be made.")
    writer.do(Close(who="admin", received=BEGIN + 6 * DAY, reason="all is done"))
    alerts.look(BEGIN + 7 * DAY)
    assert alert_rows(sqlite) == []


def test_a_check_that_fails_leaves_the_others(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question that the database does not answer must not hide what the others find."""
    writer = Writer(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    monkeypatch.setitem(checks.CHECKS, "fallback", lambda *_: 1 / 0)
    Alerts(sqlite).look(BEGIN + 5 * DAY)
    assert alerts_of(sqlite, "silent") == ["P1"]
