"""The log goes to standard error as it is at the time, and a log that cannot be written harms nothing."""

import io
import json
import sys

import pytest
import structlog

from opportune.service.monitoring.logs import log_as_json


def test_lines_of_json_on_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever standard error leads by then, also if that was somewhere else before."""
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    log_as_json()
    log = structlog.get_logger()
    log.warning("alert", code="silent")
    first_line = first.getvalue()
    first.close()
    monkeypatch.setattr(sys, "stderr", second)
    log.error("another")
    assert json.loads(first_line) | {"timestamp": ""} == {
        "event": "alert", "code": "silent", "level": "warning", "timestamp": "",
    }  # fmt: skip
    assert json.loads(second.getvalue())["event"] == "another"


class Full(io.StringIO):
    """A disk without room."""

    def write(self, _text: str) -> int:
        """Nothing fits any more."""
        raise OSError("no space left on device")


@pytest.mark.parametrize("kind", ["closed", "full"])
def test_a_log_that_cannot_be_written_harms_nothing(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Whoever logs goes on."""
    stream = Full() if kind == "full" else io.StringIO()
    if kind == "closed":
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    log_as_json()
    structlog.get_logger().error("nothing can be stored")
