"""The outbox: what is told is stored with what it is about, and delivered at least once, signed."""

import hmac
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import msgspec
import pytest
from aiosmtpd.controller import Controller
from course import BEGIN, answer_of, launch
from servers import free_port
from site_over_http import SENSED
from sqlalchemy import select, update
from study_text import study_text

from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.participants import Enrol
from opportune.service.monitoring import delivery
from opportune.service.monitoring.alerts import Alerts
from opportune.service.monitoring.anchors import DAY, anchor
from opportune.service.monitoring.delivery import ATTEMPTS, LEASE, LONGEST_PAUSE, Delivery, dead, pause
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.webhooks import verified

KEY = "a key that both sides know"


class Receiver:
    """A webhook: what it was sent, and what it answers."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers), body))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Take nothing more."""
        self._server.shutdown()
        self._server.server_close()

    def messages(self) -> list[dict[str, Any]]:
        """What was sent, with signatures that are right and not older than a minute."""
        found = []
        for headers, body in self.got:
            moment = headers["Opportune-Time"]
            expected = hmac.digest(KEY.encode(), f"{moment}.".encode() + body, "sha256").hex()
            assert headers["Opportune-Signature"] == f"sha256={expected}"
            assert abs(time.time() - int(moment)) < 60
            found.append(msgspec.json.decode(body))
        return found


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A webhook that knows the key."""
    monkeypatch.setenv(delivery.KEY, KEY)
    receiver = Receiver()
    yield receiver
    receiver.close()


def text_for(serve: str) -> str:
    """A study that always nudges, with more in [serve]."""
    return study_text(policy="always").replace("[serve]\n", f"[serve]\n{serve}\n")


def nudge(writer: Writer, name: str = "P1") -> str:
    """Someone who is to be called."""
    writer.do(Enrol(who="staff", received=BEGIN, participant=name))
    ask = Propose(who="app", received=BEGIN, participant=name, given={"sensed": SENSED})
    decision: str = answer_of(writer.do(ask))["decision"]
    return decision


def rows(database: Database) -> list[dict[str, Any]]:
    """Everything in the outbox."""
    with database.reading.connect() as connection:
        return [dict(row) for row in connection.execute(select(tables.outbox).order_by(tables.outbox.c.id)).mappings()]


def test_an_apps_server_is_told_what_happens_to_participants(database: Database, hook: Receiver) -> None:
    """What the app would be told, signed, by pseudonym and without health data; the team's webhook is another one."""
    writer = Writer(database)
    launch(writer, text_for(f'app_webhook = "{hook.address}"'))
    decision = nudge(writer)
    writer.do(Answer(who="staff", received=BEGIN, decision=decision, answered=True, reported={"mood": "low"}))
    assert Delivery(database).deliver(clock.now()) == 2
    made, settled = [verified(KEY, headers, body) for headers, body in hook.got]
    assert set(made) == {"study", "at", "kind", "participant", "decision", "event"}
    assert (made["kind"], made["participant"], made["decision"]) == ("decision", "P1", decision)
    assert (settled["kind"], settled["decision"]) == ("advice", decision)
    assert int(settled["event"]) > int(made["event"])


def test_calls_and_outcomes_are_told_signed_and_without_health_data(database: Database, hook: Receiver) -> None:
    """A call that is due and a call that was settled, each once, by pseudonym."""
    writer = Writer(database)
    launch(writer, text_for(f'webhook = "{hook.address}"\nmessages = ["call", "settled"]'))
    decision = nudge(writer)
    writer.do(Answer(who="staff", received=BEGIN, decision=decision, answered=True, reported={"mood": "low"}))
    assert Delivery(database).deliver(clock.now()) == 2
    assert Delivery(database).deliver(clock.now()) == 0
    call, settled = hook.messages()
    assert (call["kind"], call["participant"], call["decision"]) == ("call", "P1", decision)
    assert (settled["kind"], settled["outcome"]) == ("settled", "answered")
    for word in ("stress", "mood", "low", "morning", "probability"):
        assert word not in str(hook.got).replace("stress-messages", "")


def test_what_is_not_asked_for_is_not_told(sqlite: Database, hook: Receiver) -> None:
    """Without `messages` a webhook gets alerts and the end of the record, as ever."""
    writer = Writer(sqlite)
    launch(writer, text_for(f'webhook = "{hook.address}"'))
    nudge(writer)
    assert rows(sqlite) == []
    Alerts(sqlite).raise_alert("red", "fallback", "P1", "P1 was affected")
    Delivery(sqlite).deliver(clock.now())
    (message,) = hook.messages()
    assert (message["kind"], message["code"], message["study"]) == ("alert", "fallback", "stress-messages")
    assert "P1" not in str(message)


def test_nothing_is_told_of_what_was_not_stored(sqlite: Database, hook: Receiver) -> None:
    """A transaction that fails takes its messages with it."""
    writer = Writer(sqlite)
    launch(writer, text_for(f'webhook = "{hook.address}"\nmessages = ["call"]'))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    ask = Propose(who="app", received=BEGIN, participant="P1", given={"sensed": SENSED})
    with sqlite.writing.begin() as connection:  # the control that it would have been told: below
        connection.exec_driver_sql("CREATE TRIGGER refuse BEFORE UPDATE ON study BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(Exception, match="no"):
        writer.do(ask)
    assert rows(sqlite) == []
    with sqlite.writing.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER refuse")
    writer.do(ask)
    assert len(rows(sqlite)) == 1


def test_a_process_that_dies_between_sending_and_noting_it_sends_again(
    sqlite: Database, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least once, with the same id, so that receivers can leave out what they have."""
    writer = Writer(sqlite)
    launch(writer, text_for(f'webhook = "{hook.address}"\nmessages = ["call"]'))
    nudge(writer)

    class Killed(BaseException):
        pass

    def die(*_arguments: Any) -> Any:
        raise Killed

    with monkeypatch.context() as dying:
        post = delivery._post
        dying.setattr(delivery, "_post", lambda *given: (post(*given), die()))
        with pytest.raises(Killed):
            Delivery(sqlite).deliver(clock.now())
    assert len(hook.got) == 1
    assert Delivery(sqlite).deliver(clock.now()) == 0, "another process waits for a while"
    assert Delivery(sqlite).deliver(clock.now() + LEASE + 1) == 1
    first, second = hook.messages()
    assert first == second
    assert hook.got[0][0]["Opportune-Id"] == hook.got[1][0]["Opportune-Id"]


def test_a_receiver_that_fails_is_tried_with_growing_pauses_and_then_given_up(sqlite: Database, hook: Receiver) -> None:
    """Not more than a few hours apart, for days; what is given up is listed."""
    launch(Writer(sqlite), text_for(f'webhook = "{hook.address}"'))
    Alerts(sqlite).raise_alert("red", "fallback", None, "")
    hook.status = 500
    sender = Delivery(sqlite)
    for attempt in range(1, ATTEMPTS + 1):
        (row,) = rows(sqlite)
        assert row["attempts"] == attempt - 1
        assert sender.deliver(row["due"]) == 0
    assert len(hook.got) == ATTEMPTS
    (row,) = rows(sqlite)
    assert row["due"] is None
    assert [message["id"] for message in dead(sqlite)] == [row["id"]]
    assert "HTTPStatusError" in row["failure"]
    pauses = [pause(attempt) for attempt in range(1, ATTEMPTS)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE
    assert sum(pauses) > 48 * clock.HOUR


def test_mail_reaches_a_mail_server(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alerts go to the addresses of the study file; participants are not named."""
    got: list[Any] = []

    class Handler:
        async def handle_DATA(  # noqa: N802  (as aiosmtpd calls it)
            self, _server: Any, _session: Any, envelope: Any
        ) -> str:
            got.append(envelope)
            return "250 OK"

    port = free_port()
    controller = Controller(Handler(), hostname="127.0.0.1", port=port)
    controller.start()
    monkeypatch.setenv(delivery.SMTP, f"smtp://127.0.0.1:{port}")
    launch(Writer(sqlite), text_for('mail = ["team@example.org", "doctor@example.org"]'))
    Alerts(sqlite).raise_alert("red", "fallback", "P1", "P1 was affected")
    anchor(sqlite)
    assert Delivery(sqlite).deliver(clock.now()) == 1, "the end of the record is for programs"
    controller.stop()
    (envelope,) = got
    assert envelope.rcpt_tos == ["team@example.org", "doctor@example.org"]
    content = envelope.content.decode()
    assert "Subject: stress-messages: red alert" in content
    assert "code: fallback" in content
    assert "P1" not in content


def test_mail_without_a_server_waits_and_says_why(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost while OPPORTUNE_SMTP is missing."""
    monkeypatch.delenv(delivery.SMTP, raising=False)
    launch(Writer(sqlite), text_for('mail = ["team@example.org"]'))
    Alerts(sqlite).raise_alert("red", "fallback", None, "")
    assert Delivery(sqlite).deliver(clock.now()) == 0
    (row,) = rows(sqlite)
    assert "OPPORTUNE_SMTP names no mail server" in row["failure"]
    assert row["due"] is not None


def test_the_end_of_the_record_is_anchored_every_day(
    sqlite: Database, hook: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the log and to the webhook, once a day; a record that was cut off since does not verify."""
    writer = Writer(sqlite)
    launch(writer, text_for(f'webhook = "{hook.address}"'))
    nudge(writer)
    now = clock.now()
    assert anchor(sqlite, now)
    assert not anchor(sqlite, now)
    nudge(writer, "P2")
    assert anchor(sqlite, now + DAY)
    Delivery(sqlite).deliver(clock.now())
    Delivery(sqlite).deliver(now + DAY + 1)
    told = hook.messages()
    assert [message["kind"] for message in told] == ["head", "head"]
    with sqlite.reading.connect() as connection:
        assert told[-1]["head"] == connection.execute(select(tables.study.c.head)).scalar()
    assert told[-1]["head"] in "".join(capsys.readouterr())
    assert _verified(sqlite) == []
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.anchors).where(tables.anchors.c.seq == told[0]["seq"]).values(head="0" * 64))
    assert any("anchor" in finding for finding in _verified(sqlite))


def _verified(database: Database) -> list[str]:
    from opportune.service.verify.check import verify

    return verify(database).findings
