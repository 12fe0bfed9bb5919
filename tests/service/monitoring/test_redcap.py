"""REDCap: outcomes reach the project at least once and as they stand now, and people are enrolled from it."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import pytest
from course import BEGIN, answer_of, launch
from redcap_server import TOKEN, RedcapServer
from site_over_http import SENSED, good, site_on
from sqlalchemy import func, select
from study_text import study_text

from opportune.errors import InputError
from opportune.service.accounts.names import REDCAP
from opportune.service.commands.corrections import CorrectOutcome
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.participants import Enrol, SetStatus
from opportune.service.commands.rewards import Reward
from opportune.service.export import redcap as files
from opportune.service.monitoring import redcap
from opportune.service.monitoring.alerts import Alerts
from opportune.service.monitoring.delivery import ATTEMPTS, Delivery, dead
from opportune.service.monitoring.redcap import Enrolments
from opportune.service.record import queries, tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.study import parse_study
from opportune.study.people import RedcapTable

BASELINE = '\nbaseline = { site = ["Berlin", "Bern"], age = [18, 90] }\n'
FIELDS = {"consented", "site", "age_years", "zone"}
LABELS = {"site": {"1": "Berlin", "2": "Bern"}}
PULL = 'enrol = "consented"\ntimezone = "zone"\nbaseline = { age = "age_years" }\n'


def text_for(server: RedcapServer, more: str = "", *, baseline: bool = False) -> str:
    """A study that always nudges and goes to a project."""
    text = study_text(policy="always", extra=f'\n[redcap]\nurl = "{server.url}"\n{more}')
    return text.replace("[participants]\n", f"[participants]{BASELINE}") if baseline else text


def dictionary_of(text: str, folder: Any) -> set[str]:
    """The fields of a project that was made of the dictionary that is exported."""
    database = Database(f"sqlite:///{folder / 'dictionary.db'}")
    database.migrate()
    launch(Writer(database), text)
    shown = "".join(dict(files.files(database))["dictionary.csv"])
    database.close()
    return {row["Variable / Field Name"] for row in csv.DictReader(io.StringIO(shown))} - {"record_id"}


@pytest.fixture
def server(folder: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedcapServer]:
    """A project with the fields of the study's dictionary, and those in which people are entered."""
    monkeypatch.setenv(redcap.TOKEN, TOKEN)
    with RedcapServer(dictionary_of(study_text(policy="always"), folder) | FIELDS, LABELS) as found:
        yield found


def nudged(writer: Writer, name: str = "P1") -> str:
    """Somebody with a nudge that waits."""
    writer.do(Enrol(who="staff", received=BEGIN, participant=name))
    ask = Propose(who="app", received=BEGIN, participant=name, given={"sensed": SENSED})
    return str(answer_of(writer.do(ask))["decision"])


def with_people(database: Database, text: str) -> Writer:
    """A study with people."""
    writer = Writer(database)
    launch(writer, text, rehearsal=False)
    return writer


def test_outcomes_reach_the_project_as_they_stand(database: Database, server: RedcapServer) -> None:
    """An answer, a reward and its correction, a withdrawal: the latest is there, in the fields of the dictionary."""
    writer = with_people(database, text_for(server))
    decision = nudged(writer)
    writer.do(Answer(who="staff", received=BEGIN, decision=decision, answered=True, reported={"mood": "low"}))
    writer.do(Reward(who="app", received=BEGIN, decision=decision, reward=0.25))
    assert Delivery(database).deliver(clock.now()) == 3
    assert len(server.requests) == 1, "they are written together"
    assert (
        server.records["P1", "decisions", 1] | {"d_answered": "1", "d_reward": "0.25"}
        == (server.records["P1", "decisions", 1])
    )
    assert server.records["P1", "", 0]["p_status"] == "active"
    writer.do(Reward(who="s", received=BEGIN, decision=decision, reward=0.75, corrects=True, reason="misread"))
    writer.do(CorrectOutcome(who="s", received=BEGIN, decision=decision, outcome="unanswered", reason="slipped"))
    writer.do(SetStatus(who="s", received=BEGIN, participant="P1", status="withdrawn", reason="moved"))
    Delivery(database).deliver(clock.now())
    stands = server.records["P1", "decisions", 1]
    assert (stands["d_reward"], stands["d_reward_first"]) == ("0.75", "0.25")
    assert stands["d_outcome_corrected"] == "unanswered"
    assert server.records["P1", "", 0]["p_status"] == "withdrawn"
    assert Delivery(database).deliver(clock.now()) == 0


def test_nothing_that_unblinds_is_written(sqlite: Database, server: RedcapServer) -> None:
    """Staff read what is in REDCap: no probability, price, coin, budget or arm; messages hold pseudonyms alone."""
    writer = with_people(sqlite, text_for(server))
    writer.do(Reward(who="app", received=BEGIN, decision=settled(writer), reward=0.25))
    with sqlite.reading.connect() as connection:
        bodies = connection.execute(select(tables.outbox.c.body)).scalars().all()
    assert bodies
    assert not any(word in body for body in bodies for word in ("0.25", 'stress"', "mood", "rest"))
    Delivery(sqlite).deliver(clock.now())
    written = {name for values in server.records.values() for name in values}
    assert "d_reward" in written, "the control"
    secret = ("probability", "coin", "price", "gap", "budget", "arm", "fresh", "stale", "spent", "mood", "stress")
    assert not [name for name in written if any(word in name for word in secret)]


def settled(writer: Writer) -> str:
    """A decision whose nudge was answered."""
    decision = nudged(writer)
    writer.do(Answer(who="staff", received=BEGIN, decision=decision, answered=True, reported={"mood": "low"}))
    return decision


@pytest.mark.parametrize("what", ["down", "lost answer", "wrong token", "unknown field"])
def test_what_was_not_taken_is_written_again(
    sqlite: Database, server: RedcapServer, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it failed: nothing is lost, what arrives twice is there once, and errors hold nothing of participants."""
    writer = with_people(sqlite, text_for(server))
    settled(writer)
    before = set(server.fields)
    server.failing, server.forgetful = int(what == "down"), what == "lost answer"
    if what == "wrong token":
        monkeypatch.setenv(redcap.TOKEN, "F" * 32)
    if what == "unknown field":
        server.fields -= {"d_action"}
    assert Delivery(sqlite).deliver(clock.now()) == 0
    with sqlite.reading.connect() as connection:
        failures = set(connection.execute(select(tables.outbox.c.failure)).scalars())
    assert len(failures) == 1
    assert not any(word in str(failures) for word in ("P1", "F" * 32, TOKEN))
    server.failing, server.forgetful, server.fields = 0, False, before
    monkeypatch.setenv(redcap.TOKEN, TOKEN)
    assert Delivery(sqlite).deliver(clock.now() + clock.HOUR) == 2
    assert server.records["P1", "decisions", 1]["d_answered"] == "1"
    assert len(server.records) == 2


def test_what_is_never_taken_is_listed(sqlite: Database, server: RedcapServer) -> None:
    """After the last attempt it is among the messages on the study page."""
    settled(with_people(sqlite, text_for(server)))
    server.failing, now = 10_000, clock.now()
    for _ in range(ATTEMPTS):
        now += 7 * clock.HOUR
        Delivery(sqlite).deliver(now)
    assert {row["channel"] for row in dead(sqlite)} == {"redcap"}
    assert {row["failure"] for row in dead(sqlite)} == {"HTTPStatusError: 503"}


def test_what_changes_while_it_is_written_is_written_again(
    sqlite: Database, server: RedcapServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have written what is newer, before what is older arrives."""
    writer = with_people(sqlite, text_for(server))
    decision = settled(writer)
    ask = redcap.ask

    def slow(project: RedcapTable, **content: str) -> Any:
        told = ask(project, **content)
        writer.do(Reward(who="app", received=BEGIN, decision=decision, reward=0.5))
        return told

    with monkeypatch.context() as patch:
        patch.setattr(redcap, "ask", slow)
        assert Delivery(sqlite).deliver(clock.now()) == 0
    assert server.records["P1", "decisions", 1]["d_reward"] == ""
    Delivery(sqlite).deliver(clock.now() + clock.HOUR)
    assert server.records["P1", "decisions", 1]["d_reward"] == "0.5"


def test_a_rehearsal_writes_and_reads_nothing(sqlite: Database, server: RedcapServer) -> None:
    """Its participants are not people; without REDCap in the study file nothing is stored either."""
    writer = Writer(sqlite)
    text = text_for(server, 'enrol = "consented"\n')
    launch(writer, text)
    settled(writer)
    assert waiting(sqlite) == 0
    with site_on(sqlite, text=text) as site:
        assert not site.service._may_enrol()
    redcap.require_token(sqlite, StudyInForce.from_text(text_for(server)))


def waiting(database: Database) -> int:
    """How many messages are for REDCap."""
    with database.reading.connect() as connection:
        query = select(func.count()).select_from(tables.outbox).where(tables.outbox.c.channel == "redcap")
        return int(connection.execute(query).scalar_one())


def enrolments(database: Database) -> Enrolments:
    """What reads records, with a writer's thread."""
    writer = Writer(database)
    writer.start()
    return Enrolments(database, writer, Alerts(database), lambda: True)


def test_people_are_enrolled_from_the_project(database: Database, server: RedcapServer) -> None:
    """Once each, with what is known of them; those without consent are not, and those who are wrong are named."""
    with_people(database, text_for(server, PULL, baseline=True))
    server.records |= {
        ("P1", "", 0): {"consented": "1", "site": "2", "age_years": "63", "zone": "Europe/Zurich"},
        ("P2", "", 0): {"consented": "0", "site": "1", "age_years": "50", "zone": ""},
        ("P3", "", 0): {"consented": "1", "site": "1", "age_years": "17", "zone": ""},
        ("P4", "", 0): {"consented": "1", "site": "", "age_years": "44", "zone": ""},
        ("P5", "", 0): {"consented": "1", "site": "1", "age_years": "44.5", "zone": "localtime"},
        ("Jane Doe", "", 0): {"consented": "1", "site": "1", "age_years": "44", "zone": ""},
        ("P6", "", 0): {"consented": "1", "site": "1", "age_years": "44.5", "zone": ""},
        ("P1", "decisions", 1): {"consented": "1"},
    }
    reader = enrolments(database)
    assert reader.look() == 2
    rows = {row["name"]: row for row in queries.participant_rows(database, limit=10)}
    assert set(rows) == {"P1", "P6"}
    assert (rows["P1"]["timezone"], rows["P1"]["baseline"]) == ("Europe/Zurich", '{"site":"Bern","age":63.0}')
    last = queries.event_rows(database, limit=10)[1]
    assert (last["kind"], last["who"]) == ("enrolled", REDCAP)
    (alert,) = queries.alert_rows(database)
    assert alert["code"] == "redcap"
    for name, why in (("P3", "age"), ("P4", "lacks 'site'"), ("P5", "localtime")):
        assert name in alert["text"]
        assert why in alert["text"]
    assert "Jane Doe" not in alert["text"], "what is no pseudonym may be a name"
    for name, field, value in (("P3", "age_years", "71"), ("P4", "site", "1"), ("P5", "zone", "")):
        server.records[name, "", 0][field] = value
    del server.records["Jane Doe", "", 0]
    assert reader.look() == 3
    assert queries.alert_rows(database) == []
    assert reader.look() == 0
    reader._writer.stop()


def test_a_project_that_does_not_answer_is_an_alert_once_it_lasts(sqlite: Database, server: RedcapServer) -> None:
    """Not at once; and it is over as soon as it answers."""
    with_people(sqlite, text_for(server, PULL, baseline=True))
    reader = enrolments(sqlite)
    server.failing = 3
    for number in range(3):
        assert queries.alert_rows(sqlite) == [], number
        assert reader.look() == 0
    (alert,) = queries.alert_rows(sqlite)
    assert (alert["code"], alert["text"]) == ("redcap", "REDCap cannot be read: HTTPStatusError.")
    reader.look()
    assert queries.alert_rows(sqlite) == []
    reader._writer.stop()


def test_a_service_reads_and_writes_by_itself(sqlite: Database, server: RedcapServer) -> None:
    """From a record in the project to an outcome in it, with nobody's help."""
    import time

    server.records["P1", "", 0] = {"consented": "1", "site": "1", "age_years": "44", "zone": ""}
    with site_on(sqlite, text=text_for(server, PULL, baseline=True)) as site:
        end = time.monotonic() + 30
        while time.monotonic() < end and site.get("participants/P1").status_code != 200:
            time.sleep(0.2)
        made = site.decide("P1")
        good(site.post(f"decisions/{made['decision']}/answer", {"answered": True, "reported": {"mood": "low"}}))
        good(site.post(f"decisions/{made['decision']}/reward", {"reward": 0.5}))
        while time.monotonic() < end and server.records.get(("P1", "decisions", 1), {}).get("d_reward") != "0.5":
            time.sleep(0.2)
    assert server.records["P1", "decisions", 1]["d_reward"] == "0.5"
    assert server.records["P1", "", 0]["consented"] == "1", "what people entered there stays"


def test_a_service_with_people_needs_the_token(
    sqlite: Database, server: RedcapServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so at the start, not at the first outcome."""
    with_people(sqlite, text_for(server))
    running = StudyInForce.from_text(text_for(server))
    redcap.require_token(sqlite, running)
    monkeypatch.delenv(redcap.TOKEN)
    with pytest.raises(InputError, match="OPPORTUNE_REDCAP_TOKEN is not set"):
        redcap.require_token(sqlite, running)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('url = "http://redcap.example.org/api/"', "https://"),
        ('url = "ftp://redcap.example.org/"', "https://"),
        ("url = 3", "https://"),
        ('url = "https://r.example/api/"\nenrol = "Consented?"', "lower case"),
        ('url = "https://r.example/api/"\nenrol = "x] = \'1\' or [y"', "lower case"),
        ('url = "https://r.example/api/"\npush = ["coins"]', "'participants' and 'decisions'"),
        ('url = "https://r.example/api/"\nevent = "No Event"', "unique name"),
        ('url = "https://r.example/api/"\nbaseline = { shoe_size = "shoes" }', "shoe_size"),
        ("push = []", "url"),
        ('url = "https://r.example/api/"\ntoken = "A1"', "token"),
    ],
)
def test_mistakes_in_the_study_file_are_named(line: str, word: str) -> None:
    """Before anything is sent anywhere."""
    with pytest.raises(InputError, match="redcap") as error:
        parse_study(study_text(extra=f"\n[redcap]\n{line}\n"))
    assert word in str(error.value)
