"""Alerts reach the table, the log and the webhook, once, and name nobody outside."""

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from course import launch
from site_over_http import site_on
from study_text import study_text

from opportune.service.monitoring.alerts import CODES, Alerts
from opportune.service.monitoring.delivery import Delivery
from opportune.service.record.database import Database
from opportune.service.record.queries import alert_rows
from opportune.service.record.writer import Writer
from opportune.service.state import clock


class Hook(http.server.BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    got: list[dict[str, Any]]

    def do_POST(self) -> None:
        """Take an alert."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Where alerts are sent, and what came."""
    got: list[dict[str, Any]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Kept", (Hook,), {"got": got}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", got
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_alert_is_raised_once_and_sent_without_names(
    sqlite: Database, hook: tuple[str, list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The table says whom it is about; the log and the webhook do not. Cleared, it can be raised again."""
    address, got = hook
    launch(Writer(sqlite), study_text().replace("[serve]\n", f'[serve]\nwebhook = "{address}"\n'))
    alerts = Alerts(sqlite)
    assert alerts.raise_alert("red", "fallback", "SECRET-1", "SECRET-1 was affected")
    assert not alerts.raise_alert("red", "fallback", "SECRET-1", "SECRET-1 was affected")
    assert [alert["participant"] for alert in alert_rows(sqlite)] == ["SECRET-1"]
    assert Delivery(sqlite).deliver(clock.now()) == 1
    (message,) = got
    said = {"study": "stress-messages", "level": "red", "code": "fallback", "text": CODES["fallback"][1]}
    assert said.items() <= message.items()
    assert "SECRET" not in "".join(capsys.readouterr())
    alerts.clear("fallback", "SECRET-1")
    assert alert_rows(sqlite) == []
    assert alerts.raise_alert("red", "fallback", "SECRET-1", "again")


def test_a_webhook_that_does_not_answer_harms_nothing(sqlite: Database) -> None:
    """The alert is in the table all the same."""
    launch(Writer(sqlite), study_text().replace("[serve]\n", '[serve]\nwebhook = "http://127.0.0.1:9/"\n'))
    assert Alerts(sqlite).raise_alert("yellow", "silent", "P1", "quiet")
    assert len(alert_rows(sqlite)) == 1


@pytest.mark.parametrize("rehearsal", [True, False])
def test_a_rehearsal_tells_the_time(sqlite: Database, rehearsal: bool) -> None:
    """In a rehearsal requests say what time it is; otherwise nobody can."""
    with site_on(sqlite, rehearsal=rehearsal) as site:
        headers = {**site.headers("staff"), "Rehearsal-Time": "2031-05-01T09:00:00Z"}
        response = site.client.post("/api/v1/participants", json={"participant": "P1"}, headers=headers)
        if not rehearsal:
            assert response.status_code == 422
            assert "this is no rehearsal" in response.text
        else:
            assert response.json()["enrolled"].startswith("2031-05-01T09:00:00")
            headers["Rehearsal-Time"] = "soon"
            refused = site.client.post("/api/v1/participants", json={"participant": "P2"}, headers=headers)
            assert refused.status_code == 422
