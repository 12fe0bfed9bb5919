"""Names removed: what analysts get says who did something by role and number, and holds nothing to find a name from."""

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from desk import PASSWORD, desks
from signed import sign
from site_over_http import good, site_on
from study_text import study_text

from opportune.cli import main as cli
from opportune.cli.record import write_export
from opportune.service.accounts.changes import Actor, Administer, change_account
from opportune.service.accounts.people import add_person
from opportune.service.commands.administration import Amend, Close, ConfirmClock
from opportune.service.export import exports
from opportune.service.record import events
from opportune.service.record.database import Database
from opportune.service.record.queries import event_rows
from opportune.service.record.study_file import published
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.state.study import file_hash

NAMES = ["Maria Huber", "Jonas Weber", "the director"]


def test_an_export_cannot_be_reversed(sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No name stands in it, no hash of a body that holds one, nor the salt by which one could be tried."""
    with site_on(sqlite) as site:
        people = desks(site, **{"Maria Huber": "staff"})
        add_person(sqlite, "Jonas Weber", "admin", PASSWORD)
        sign(sqlite, monkeypatch)
        site.enrol()
        people["Maria Huber"].send("/participants/0", "/participants/0/note", text="called twice")
        assert cli.run(["export", str(tmp_path), "--db", sqlite.url]) == 0
        pages = good(site.get("events?limit=1000", "analyst"))["items"]
        given = [file.read_text(encoding="utf-8") for file in tmp_path.iterdir()] + [json.dumps(pages)]
        given.append(desks(site, cora="analyst")["cora"].page("/record"))
        rows = event_rows(sqlite, limit=1000)
        secret = [*NAMES, *(row["hash"] for row in rows)]
        secret += [json.loads(row["body"])["salt"] for row in rows]
        assert len(secret) > 12
        assert [text for text in secret if any(text in each for each in given)] == []
        assert any("Maria Huber" in row["body"] for row in rows), "the record itself knows"
        (note,) = [item["event"] for item in pages if item["event"]["kind"] == "noted"]
        assert note["who"].startswith("staff ")
        assert {"seq", "kind", "given", "answer"} <= set(note)


def test_a_hash_cannot_be_tried_against_names(sqlite: Database) -> None:
    """Whoever sees the head of the record, as on the study's page, and all of its last event but the name."""
    with site_on(sqlite) as site:
        site.enrol()
        head = good(site.get("study", "analyst"))["head"]
        (row,) = [row for row in event_rows(sqlite, limit=1000) if row["hash"] == head]
        event = json.loads(row["body"])
        assert hashlib.sha256(row["body"].encode()).hexdigest() == head, "with the salt it could"
        body = row["body"].replace(event["salt"], "")
        assert hashlib.sha256(body.encode()).hexdigest() != head


def test_the_search_does_not_tell_names(sqlite: Database) -> None:
    """An analyst who looks for a name finds nothing, wherever the record has it."""
    with site_on(sqlite) as site:
        found = desks(site, cora="analyst", ada="admin")
        add_person(sqlite, "Jonas Weber", "staff", PASSWORD)
        for who, there in (("cora", False), ("ada", True)):
            page = found[who].send("/record", "/record", text="Jonas Weber").text
            assert ("person added" in page) == there, who


def test_analysts_see_every_kind_of_event(sqlite: Database) -> None:
    """Of what was seen to before the launch they see what it was, and not what somebody wrote about it."""
    with site_on(sqlite) as site:
        given = {"item": "staff", "done": True, "note": "Jonas Weber has trained them"}
        Writer(sqlite).do(Administer(who="boss", received=clock.now(), kind=events.CHECKED, given=given))
        last = good(site.get("events?limit=1000", "analyst"))["items"][-1]["event"]
        assert last["given"] == {"item": "staff", "done": True}
        assert "Jonas" not in "".join(exports.export(sqlite, "events"))
        assert "Jonas" in good(site.get("events?limit=1000", "admin"))["items"][-1]["event"]["given"]["note"]


def test_nobody_sees_where_commands_came_from(sqlite: Database) -> None:
    """The system's name for whoever amended, closed or confirmed is often that of a person; admins alone see it."""
    origin = {"from": "command line", "system_user": "jane.doe"}
    with site_on(sqlite) as site:
        said: Any = {"who": "boss", "reason": "ethics board", "origin": origin}
        writer = Writer(sqlite)
        file = study_text(extra="\n# amended\n")
        writer.do(Amend(file=file, source="study.toml", received=clock.now(), **said))
        writer.do(ConfirmClock(received=clock.now(), **said))
        change_account(sqlite, Actor("boss", origin), "key added", "nurse", lambda connection: None)
        writer.do(Close(received=clock.now(), **said))
        for role, there in (("staff", False), ("analyst", False), ("admin", True)):
            seen = site.get("events?limit=1000", role).text
            assert ("jane.doe" in seen) == there, role
        exported = "".join(exports.export(sqlite, "events"))
    assert "ethics board" in exported, "the control"
    assert "jane.doe" not in exported


def test_the_study_files_hash_does_not_tell_names(sqlite: Database, tmp_path: Path) -> None:
    """Whoever has the exported file and its hash could put names into it until the hash fits."""
    text = study_text().replace("[serve]\n", '[serve]\nunblinded = ["Maria Huber"]\n')
    with site_on(sqlite, text=text) as site:
        site.enrol()
        site.decide()
        real, shown = file_hash(text), file_hash(published(text))
        assert good(site.get("study", "admin"))["hash"] == real, "the control"
        write_export(sqlite, tmp_path)
        given = [file.read_text(encoding="utf-8") for file in tmp_path.iterdir()]
        given += [site.get(path, "analyst").text for path in ("study", "events?limit=1000", "study/content")]
        found = desks(site, cora="analyst")["cora"]
        given += [found.page("/record"), found.page("/study")]
        assert [each for each in given if real[:12] in each] == []
        assert hashlib.sha256((tmp_path / "study.toml").read_bytes()).hexdigest() == shown
        assert f",{shown}," in (tmp_path / "events.csv").read_text(encoding="utf-8")
        assert f",{shown[:12]}," in (tmp_path / "decisions.csv").read_text(encoding="utf-8")


def test_events_are_explained(sqlite: Database) -> None:
    """The columns of events.csv are those that the dictionary names; hashes are not among them."""
    with site_on(sqlite) as site:
        site.enrol()
        rows = list(csv.DictReader(io.StringIO(site.get("exports/events.csv", "analyst").text)))
        names = good(site.get("exports/dictionary.json", "analyst"))["files"]["events.csv"]
    assert [column["column"] for column in names] == list(rows[0])
    assert not {"hash", "before", "salt"} & set(rows[0])
