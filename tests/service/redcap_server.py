"""A small server that behaves as REDCap's API does: a project with a dictionary, a token, records and instances."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

TOKEN = "A1B2C3D4E5F60718293A4B5C6D7E8F90"
FILTER = re.compile(r"\[([a-z0-9_]+)\] = '([^']*)'")


class RedcapServer:
    """A project.

    Args:
        fields: names of the fields that its dictionary has, besides the record's.
        labels: of choices, by field and code.

    """

    def __init__(self, fields: set[str], labels: dict[str, dict[str, str]] | None = None) -> None:
        self.fields, self.labels = fields, labels or {}
        self.records: dict[tuple[str, str, int], dict[str, str]] = {}
        self.requests: list[dict[str, str]] = []
        self.failing = 0
        """How many requests are answered with 503 from now on."""
        self.forgetful = False
        """Whether the answer to an import is lost on its way."""
        project = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body, keep_blank_values=True).items()}
                project.requests.append(form)
                status, told = project.answer(form)
                if project.forgetful and form.get("action") == "import":
                    self.close_connection = True
                    return
                content = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_arguments: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, form: dict[str, str]) -> tuple[int, Any]:
        """What the API answers to a form."""
        if self.failing > 0:
            self.failing -= 1
            return 503, {"error": "down for maintenance"}
        if form.get("token") != TOKEN:
            return 403, {"error": "You do not have permissions to use the API"}
        if form.get("content") != "record" or form.get("format") != "json" or form.get("type") != "flat":
            return 400, {"error": "The value of the parameter is not valid"}
        return self._import(form) if form.get("action") == "import" else self._export(form)

    def _import(self, form: dict[str, str]) -> tuple[int, Any]:
        rows = json.loads(form["data"])
        system = {"record_id", "redcap_repeat_instrument", "redcap_repeat_instance", "redcap_event_name"}
        for row in rows:
            unknown = row.keys() - self.fields - system
            if unknown:
                return 400, {"error": f"The following fields were not found in the project: {', '.join(unknown)}"}
        for row in rows:
            place = row.get("redcap_repeat_instrument", ""), int(row.get("redcap_repeat_instance", 0))
            stored = self.records.setdefault((row["record_id"], *place), {})
            for name, value in row.items():
                if name not in system and (value != "" or form.get("overwriteBehavior") == "overwrite"):
                    stored[name] = value
        return 200, {"count": len({row["record_id"] for row in rows})}

    def _export(self, form: dict[str, str]) -> tuple[int, Any]:
        wanted = [form[name] for name in sorted(form) if name.startswith("fields[")]
        unknown = set(wanted) - self.fields - {"record_id"}
        if unknown:
            return 400, {"error": f"The following values in the parameter 'fields' are not valid: {unknown}"}
        found = []
        for (record, instrument, _instance), values in self.records.items():
            if instrument:
                continue
            chosen = FILTER.fullmatch(form.get("filterLogic", ""))
            if chosen is None or values.get(chosen[1]) == chosen[2]:
                told = {name: record if name == "record_id" else values.get(name, "") for name in wanted}
                if form.get("rawOrLabel") == "label":
                    told = {name: self.labels.get(name, {}).get(value, value) for name, value in told.items()}
                found.append(told)
        return 200, found
