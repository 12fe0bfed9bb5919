"""docs/service.md: what it shows works, on a real server."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from course import launch
from servers import free_port, parent
from study_text import study_text

from opportune.client import Client, ServiceError
from opportune.service.accounts.keys import FRESH_SECONDS, add_key
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.verify.check import verify

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "service.md").read_text(encoding="utf-8")


def test_the_page_runs(sqlite: Database) -> None:
    """Its Python as it stands, and its curl with the words of a shell filled in."""
    launch(Writer(sqlite), study_text())
    port = free_port()
    names: dict[str, Any] = {"address": f"http://127.0.0.1:{port}"}
    names |= {f"{role}_key": add_key(sqlite, role, role) for role in ("app", "staff")}
    with parent() as servers:
        pid = servers.start(sqlite.url, port)
        code = "".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
        exec(compile(code, "service.md", "exec"), names)
        assert names["decision"].step == 1
        time.sleep(FRESH_SECONDS + 0.1)
        with pytest.raises(ServiceError, match="unauthenticated"):
            names["phone"].get("participants/P001")  # its tokens are revoked at the end
        (curl,) = re.findall(r"\$ (curl .*?)\n```", PAGE, flags=re.DOTALL)
        command = curl.replace("localhost:8000", f"127.0.0.1:{port}").replace("$(uuidgen)", "one").replace("\\\n", " ")
        done = subprocess.run(
            ["bash", "-c", f"KEY={names['app_key']}; {command}"], capture_output=True, text=True, check=True
        )
        assert json.loads(done.stdout)["step"] == 3
        with Client(names["address"], names["app_key"], attempts=2) as client:
            assert [
                item["status"] for item in client.decide_all([{"participant": "P9", "key": "k", "sensed": {}}])
            ] == [404]
            with pytest.raises(ServiceError, match="forbidden") as refused:
                client.get("calls")
            assert (refused.value.status, refused.value.code) == (403, "forbidden")
        servers.kill(pid, signal.SIGTERM)
        names["staff"].close()
        names["app"].close()
        names["phone"].close()
    assert verify(sqlite).findings == []
