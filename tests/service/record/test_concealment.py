"""Nobody can foresee a coin: the seed is secret until the study is closed, and committed to from the beginning."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from course import BEGIN, answer_of, launch, run_course
from desk import desks
from signed import sign
from site_over_http import ALWAYS, SENSED, Site, site_on
from sqlalchemy import inspect, select, update
from sqlalchemy import text as text_of
from study_text import study_text

from opportune.algorithm.rng import COIN, draw
from opportune.cli import main as cli
from opportune.errors import DataError, WriteError
from opportune.service.accounts.changes import launching
from opportune.service.accounts.keys import ROLES
from opportune.service.commands.administration import Close
from opportune.service.commands.decisions import Propose
from opportune.service.commands.participants import Enrol
from opportune.service.export import exports
from opportune.service.record import events, secret, tables
from opportune.service.record.backup import backup, restore
from opportune.service.record.database import Database, file_url
from opportune.service.record.queries import event_rows
from opportune.service.record.writer import Writer
from opportune.service.server import launch as serve_launches
from opportune.service.state.streams import Streams, derived
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify

PEOPLE = 3


def with_people(database: Database, *, steps: int = 12, **settings: Any) -> Writer:
    """A study with people, some of whose decisions are made."""
    writer = Writer(database)
    launch(writer, study_text(**settings), rehearsal=False)
    run_course(writer.write, people=PEOPLE, steps=steps)
    return writer


def coins(database: Database) -> dict[tuple[int, int], float]:
    """The coins on record, by participant's number and step."""
    people, made = tables.participants.c, tables.decisions.c
    query = select(people.number, made.step, made.coin).where(people.name == made.participant)
    with database.reading.connect() as connection:
        return {(number, step): coin for number, step, coin in connection.execute(query)}


def tossed(streams: Streams, number: int, step: int) -> float:
    """A coin, recomputed."""
    seed, stream = map(np.uint64, streams.of(number))
    return float(draw(seed, stream, step, COIN))


def bodies(database: Database) -> list[events.Event]:
    """All events."""
    return [events.decode(row["body"]) for row in event_rows(database, limit=100_000)]


def test_coins_do_not_follow_from_the_study_file(database: Database) -> None:
    """With people they follow from nothing that anyone can read; in a rehearsal they do: the control."""
    with_people(database)
    foreseen = Streams(seed=1)
    found = coins(database)
    assert len(found) > 30
    assert not any(tossed(foreseen, *where) == coin for where, coin in found.items())
    with database.reading.connect() as connection:
        stored = secret.stored(connection)
    assert stored is not None
    known = Streams(secret=stored.seed)
    assert all(tossed(known, *where) == coin for where, coin in found.items())


def test_a_rehearsal_tosses_the_coins_of_the_study_file(sqlite: Database) -> None:
    """So that its decisions can equal those of simulate; it has no secret."""
    writer = Writer(sqlite)
    launch(writer, study_text(), rehearsal=True)
    run_course(writer.write, people=2, steps=4)
    assert all(tossed(Streams(seed=1), *where) == coin for where, coin in coins(sqlite).items())
    with sqlite.reading.connect() as connection:
        assert secret.stored(connection) is None


def test_two_studies_of_one_file_toss_other_coins(folder: Path) -> None:
    """The seed is new at every launch."""
    found = []
    for name in ("one.db", "other.db"):
        database = Database(file_url(folder / name))
        database.migrate()
        with_people(database, steps=3)
        found.append(set(coins(database).values()))
        database.close()
    assert not found[0] & found[1]


def test_the_record_commits_to_the_seed_and_discloses_it_at_the_end(sqlite: Database) -> None:
    """From then on everyone can recompute all coins from the record alone."""
    writer = with_people(sqlite)
    (launched, *others) = bodies(sqlite)
    assert len(launched.given["commitment"]) == 64
    assert not any("secret" in event.given for event in others)
    writer.do(Close(who="boss", received=BEGIN + 10**9, reason="over"))
    told = bodies(sqlite)[-1].given["secret"]
    seed, salt = bytes.fromhex(told["seed"]), bytes.fromhex(told["salt"])
    assert hashlib.sha256(salt + seed).hexdigest() == launched.given["commitment"]
    assert all(tossed(Streams(secret=seed), *where) == coin for where, coin in coins(sqlite).items())
    assert verify(sqlite).findings == []


def test_an_auditor_verifies_all_but_coins_before_the_end_and_coins_after(sqlite: Database, folder: Path) -> None:
    """From a copy without the secret; what else was changed is found in either."""
    writer = with_people(sqlite)

    def audited(name: str) -> Database:
        backup(sqlite, folder / name, for_auditor=True)
        return Database(file_url(folder / name))

    before = audited("before.db")
    verdict = verify(before)
    assert (verdict.findings, verdict.concealed) == ([], True)
    assert not verify(sqlite).concealed
    with before.reading.connect() as connection:
        for table in (tables.secret, tables.keys, tables.people, tables.requests):
            assert connection.execute(select(table)).all() == [], table.name
    spoil(before, "probability", 0.123)
    assert any("probability" in finding for finding in verify(before).findings)
    before.close()
    writer.do(Close(who="boss", received=BEGIN + 10**9, reason="over"))
    after = audited("after.db")
    verdict = verify(after)
    assert (verdict.findings, verdict.concealed) == ([], False)
    spoil(after, "coin", 0.999999)
    assert any("coin" in finding for finding in verify(after).findings)
    after.close()


def spoil(database: Database, name: str, value: float) -> None:
    """Change a number of the first decision that made no nudge, and mend all hashes."""
    head, rows, spoilt = events.START, [], False
    for event in bodies(database):
        body = msgspec.to_builtins(event)
        if event.kind == events.PROPOSED and not event.answer["nudged"] and event.answer["available"] and not spoilt:
            body["answer"][name], spoilt = value, True
            decision = event.decision
        data = msgspec.json.encode({**body, "before": head})
        head = events.hash_of(data)
        rows.append({"seq": event.seq, "body": data.decode(), "hash": head})
    assert spoilt
    with database.writing.begin() as connection:
        for row in rows:
            connection.execute(update(tables.events).where(tables.events.c.seq == row["seq"]).values(row))
        connection.execute(update(tables.study).values(head=head))
        connection.execute(update(tables.decisions).where(tables.decisions.c.id == decision).values({name: value}))


def test_where_actions_are_drawn_an_auditor_checks_the_chain(sqlite: Database, folder: Path) -> None:
    """Until the seed is disclosed nothing more follows from the record, and the verdict says so."""
    text = study_text().replace('kind = "PACE"\n', 'kind = "PACE"\nrecommender = "thompson"\n', 1)
    writer = Writer(sqlite)
    launch(writer, text, rehearsal=False)
    run_course(writer.write, people=2, steps=6)
    assert verify(sqlite).findings == []
    backup(sqlite, folder / "copy.db", for_auditor=True)
    copy = Database(file_url(folder / "copy.db"))
    verdict = verify(copy)
    assert (verdict.findings, verdict.chain_only) == ([], True)
    with copy.writing.begin() as connection:
        connection.execute(text_of("UPDATE events SET body = replace(body, 'morning', 'evening') WHERE seq = 5"))
    assert verify(copy).findings != []
    copy.close()


def test_another_seed_than_was_committed_to_is_found(sqlite: Database) -> None:
    """Whoever puts another seed in place does not get away with it."""
    with_people(sqlite, steps=3)
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.secret).values(content=bytes(64)))
    assert any("commits to" in finding for finding in verify(sqlite).findings)


def test_an_auditors_copy_decides_nothing(sqlite: Database, folder: Path) -> None:
    """Without the secret seed there are no coins to toss."""
    with_people(sqlite, steps=2)
    backup(sqlite, folder / "copy.db", for_auditor=True)
    copy = Database(file_url(folder / "copy.db"))
    with pytest.raises(Exception, match="cannot be written"):
        Writer(copy).do(Propose(who="app", received=BEGIN + 10**10, participant="P001", given={"sensed": SENSED}))
    copy.close()


def test_a_backup_goes_on_with_the_same_seed(sqlite: Database, folder: Path) -> None:
    """The whole backup has the secret, so a restored study tosses the coins that it would have tossed."""
    with_people(sqlite, steps=2)
    backup(sqlite, folder / "all.backup")
    other = Database(file_url(folder / "other.db"))
    restore(folder / "all.backup", other, lambda stored: launching())
    made = []
    for database in (sqlite, other):
        ask = Propose(who="app", received=BEGIN + 10**10, participant="P001", given={"sensed": SENSED})
        answer = answer_of(Writer(database).do(ask))
        made.append({name: value for name, value in answer.items() if name != "decision"})  # an event is ahead of it
        assert verify(database).findings == []
    assert made[0] == made[1]
    other.close()


@pytest.mark.parametrize("password", ["", "correct horse battery staple"])
def test_a_seed_in_the_clear_is_warned_of(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, password: str
) -> None:
    """By whoever makes a backup, which has it too; an auditor's copy has none."""
    monkeypatch.setenv("OPPORTUNE_SECRET", password)
    with_people(sqlite, steps=1)
    sign(sqlite, monkeypatch)
    for extra, warned in (([], not password), (["--for-auditor"], False)):
        assert cli.run(["backup", str(folder / f"b{len(extra)}"), *extra, "--db", sqlite.url]) == 0
        assert ("unencrypted, as OPPORTUNE_SECRET was not set" in capsys.readouterr().err) == warned


def test_the_seed_is_encrypted_where_there_is_a_password(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """With OPPORTUNE_SECRET what is stored does not hold the seed, and is of no use without."""
    monkeypatch.setenv("OPPORTUNE_SECRET", "correct horse battery staple")
    writer = with_people(sqlite, steps=3)
    with sqlite.reading.connect() as connection:
        (content,) = connection.execute(select(tables.secret.c.content)).one()
        stored = secret.stored(connection)
    assert stored is not None
    assert stored.seed not in content
    assert all(tossed(Streams(secret=stored.seed), *where) == coin for where, coin in coins(sqlite).items())
    assert verify(sqlite).findings == []
    for wrong in ("", "something else"):
        monkeypatch.setenv("OPPORTUNE_SECRET", wrong)
        with pytest.raises(DataError, match="OPPORTUNE_SECRET"):
            verify(sqlite)
        with pytest.raises(DataError, match="OPPORTUNE_SECRET"):
            serve_launches(sqlite, StudyInForce.from_text(study_text()))
        with pytest.raises(WriteError, match="OPPORTUNE_SECRET"):
            Writer(sqlite).do(Enrol(who="boss", received=BEGIN, participant="P999"))
    monkeypatch.setenv("OPPORTUNE_SECRET", "correct horse battery staple")
    writer.do(Close(who="boss", received=BEGIN + 10**9, reason="over"))
    monkeypatch.delenv("OPPORTUNE_SECRET")
    assert verify(sqlite).findings == [], "once it is disclosed nobody needs the password"


def test_the_secret_is_not_shown_when_it_is_printed() -> None:
    """Logs and tracebacks print values by their repr."""
    found = secret.Secret(b"s" * 32, b"t" * 32)
    assert "s" * 32 not in repr(found)
    assert "t" * 32 not in repr(found)
    assert "s" * 32 not in repr(Streams(secret=found.seed))


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A study with people, some decisions of which are made over HTTP."""
    with site_on(sqlite, policy="always", times=True) as found:
        for name in ("P001", "P002"):
            found.enrol(name, timezone="UTC")
        yield found


def secrets_of(count: int) -> set[str]:
    """What must not be seen: the seed, its salt, and each participant's own seed and stream, however written."""
    seed = salt = ALWAYS[secret.LENGTH]
    numbers = {number for i in range(count) for number in derived(seed, "participant", i)}
    return {seed.hex(), salt.hex()} | {str(number) for number in numbers} | {f"{number:x}" for number in numbers}


def test_no_role_sees_the_seed_or_a_stream(site: Site, sqlite: Database) -> None:
    """Every address of the API and every page, by every role; every export; every table but that of the secret."""
    hidden = secrets_of(2)
    signed_in = desks(site, **{f"{role}person": role for role in ("staff", "analyst", "admin")})
    paths = {
        route.path.replace("{participant:str}", "P001").replace("{decision:str}", "d4").replace("{number:int}", "0")
        for route in site.client.app.routes
        if "{change" not in route.path and "schema" not in route.path
    }
    seen = {}
    for path in paths:
        for name in ("decisions.csv", "participants.csv", "events.csv") if "{name:str}" in path else ("",):
            address = path.replace("{name:str}", name)
            for role in ROLES:
                seen[address, role] = site.request("GET", address, role).text
            for desk in signed_in.values():
                if "changes" not in address:
                    seen[address, desk.name] = desk.request("GET", address).text
    assert len(seen) > 100
    assert "commitment" in seen["/api/v1/events", "analyst"], "the control: the record is shown"
    for name in exports.NAMES:
        seen["export", name] = "".join(exports.export(sqlite, name))
    with sqlite.reading.connect() as connection:
        for table in inspect(connection).get_table_names():
            if table != "secret":
                seen["table", table] = str(connection.execute(text_of(f"SELECT * FROM {table}")).all())
        found = str(connection.execute(select(tables.secret)).all())
    assert repr(ALWAYS[secret.LENGTH])[2:-1] in found, "the control: it is in its table"
    for where, shown in seen.items():
        assert not [word for word in hidden if word in shown], where
        assert '"stream"' not in shown, where
        assert "stream" not in shown.partition("\n")[0] or "csv" not in where[0], where


def test_a_bundle_does_not_name_the_stream(sqlite: Database) -> None:
    """Phones carry the actions to come, and nothing that coins follow from."""
    with site_on(sqlite) as site:
        site.enrol("P001")
        bundle = site.get("participants/P001/bundle", "app").json()
        assert "strata" in bundle or "actions" in bundle
        assert "stream" not in bundle


def test_streams_are_told_apart_by_purpose_and_participant() -> None:
    """What one is derived for says nothing of another."""
    made = {derived(b"k" * 32, purpose, number) for purpose in ("participant", "arm") for number in range(100)}
    assert len(made) == 200
    assert all(0 <= value < 2**64 for pair in made for value in pair)


def test_a_launch_is_for_people_or_for_a_rehearsal(sqlite: Database) -> None:
    """A database of the one is not taken for the other, and enrolment goes on as launched."""
    writer = Writer(sqlite)
    launch(writer, study_text(), rehearsal=False)
    with pytest.raises(Exception, match="a study with people"):
        launch(writer, study_text(), rehearsal=True)
    launch(writer, study_text(), rehearsal=False)
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    assert bodies(sqlite)[0].given["rehearsal"] is False


@pytest.mark.parametrize("column", ["file", "rehearsal", "name", "launched", "amendments", "algorithm"])
def test_verify_looks_at_every_column_of_the_study(sqlite: Database, column: str) -> None:
    """The study file as it is stored decides how decisions are made: it must be the one on record."""
    with_people(sqlite, steps=2)
    assert verify(sqlite).findings == [], "the control"
    with sqlite.writing.begin() as connection:
        was = connection.execute(select(tables.study.c[column])).scalar_one()
        new: Any = (
            was.replace("seed = 1", "seed = 2") if column == "file" else not was if column == "rehearsal" else None
        )
        new = (f"{was}x" if isinstance(was, str) else was + 1) if new is None else new
        assert new != was
        connection.execute(update(tables.study).values({column: new}))
    assert verify(sqlite).findings != []
