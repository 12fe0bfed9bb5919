"""The commands that README.md and docs show work: each page is typed from top to bottom, in a folder of its own."""

import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from servers import free_port

from opportune.cli import main as cli
from processes import COMMAND, Started, needs_linux
from test_docs import PAGES, blocks, command_lines, named

ADDRESS = re.compile(r"\b(?:localhost|127\.0\.0\.1):8000\b")
SETTING = re.compile(r"(?:export )?(\w+)=(\S+)")
OURS = re.compile(r"(\w+=\S+ )?opportune ")
POSTGRESQL = "POSTGRESQL"
PLANNED = "opportune plan my.toml --budgets 0,5,10,20,40 --target 0.6"
"""The page on planning shows what this prints."""
STUDY = "opportune example stress-messages > study.toml"
NO_TIMES = "sed -i /^times/d study.toml"
CHANGE = "sed -i 's/^fallback = .*/fallback = \"walk\"/' study.toml"
PILOT = (
    """awk 'BEGIN { print "participant,step,action,reward,stress"; for (i = 0; i < 800; i++) """
    """print "P" int(i / 40) "," i % 40 + 1 "," (rand() < 0.5 ? "rest" : "walk") "," rand() "," """
    """(rand() < 0.5 ? "low" : "high") }' > pilot.csv"""
)


def post(path: str, body: str, key: str = "$KEY") -> str:
    """A request to the service that runs."""
    headers = ("Authorization: Bearer " + key, "Content-Type: application/json", "Idempotency-Key: " + path)
    given = " ".join(f'-H "{header}"' for header in headers)
    return f"curl --fail-with-body localhost:8000/api/v1/{path} {given} -d '{body}'"


NETWORK = "needs the network"
DASK, RAY = "needs a Dask scheduler", "needs a Ray cluster"
NOT_TYPED = {
    "make demo": NETWORK,
    "make run": NETWORK,
    "make test": "is what runs this test",
    "python3 -m venv .venv && source .venv/bin/activate && pip install '.[serve]'": NETWORK,
    "python3 -m venv .venv && source .venv/bin/activate": NETWORK,
    "pip install '.[serve]'": NETWORK,
    "openapi-python-client generate --url https://study.example.org/schema/openapi.json": NETWORK,
    "npx openapi-typescript https://study.example.org/schema/openapi.json -o schema.d.ts "
    "--default-non-nullable=false": NETWORK,
    "docker build -t opportune .": "needs Docker",
    'docker run -p 127.0.0.1:8000:8000 -v "$PWD/study:/study" opportune': "needs Docker",
    "opportune reproduce all --cluster dask://scheduler:8786": DASK,
    "opportune reproduce all --cluster ray://head:10001": RAY,
    "python check.py": "tests/test_docs.py runs the page's Python files",
    'curl localhost:8000/api/v1/participants/P001/decisions -H "Authorization: Bearer $KEY" '
    '-H "Idempotency-Key: $(uuidgen)" -H "Content-Type: application/json" '
    '-d \'{"sensed": {"time_of_day": "morning", "stress": 3, "sleep": "poor"}}\'': "test_documented_page.py runs it",
}
"""Lines that are left out, and why."""

FEWER = "--budgets 0,5 --participants 3 --replicates 2"
INSTEAD = {
    # what would take minutes
    "opportune reproduce all": "opportune reproduce table --quick",
    "opportune reproduce all --quick --out out/quick": "opportune reproduce table --quick --out out/quick",
    "opportune reproduce table regret": "opportune reproduce table regret --quick",
    "opportune reproduce all --seed 7 --out out/seed-7": "opportune reproduce table --quick --seed 7 --out out/seed-7",
    "opportune reproduce all --jobs 2": "opportune reproduce table --quick --jobs 2",
    "opportune reproduce regret --force": "opportune reproduce regret --quick --force",
    "opportune reproduce all --cluster local": "opportune reproduce table --quick --cluster local",
    "opportune plan study.toml": f"opportune plan study.toml {FEWER}",
    "opportune plan my.toml --out plan": f"opportune plan my.toml --out plan {FEWER}",
    "opportune plan calls.toml --out with-hours": f"opportune plan calls.toml --out with-hours {FEWER}",
    "opportune plan calls-without-hours.toml --out without-hours":
        f"opportune plan calls-without-hours.toml --out without-hours {FEWER}",
    "opportune rehearse trial.toml --participants 20 --export out/rehearsal":
        "opportune rehearse trial.toml --participants 6 --days 30 --export out/rehearsal",
    "opportune rehearse my.toml --export out/rehearsal":
        "opportune rehearse my.toml --export out/rehearsal --participants 4 --days 20",
    "opportune rehearse my.toml --keep kept": "opportune rehearse my.toml --keep kept --participants 4 --days 20",
    "opportune rehearse my.toml --url http://127.0.0.1:8000 --participants 10 --days 5 --speed 60x":
        "opportune rehearse my.toml --url http://127.0.0.1:8000 --participants 4 --days 3 --speed max",
    # what asks questions
    "opportune new my.toml": "opportune new my.toml --yes",
    # what names a place that is somewhere else here
    "opportune serve study.toml --db postgresql://opportune@localhost/study --workers 4":
        "opportune serve study.toml --db POSTGRESQL --workers 2",
    "opportune restore move.backup --db postgresql://me@localhost/study --moved-from sqlite:///study.db":
        "opportune restore move.backup --db POSTGRESQL --moved-from sqlite:///study.db",
    "OPPORTUNE_LOCALE=/srv/study/locale opportune serve study.toml":
        "OPPORTUNE_LOCALE=. opportune serve study.toml",
}  # fmt: skip
"""Lines that are typed in another way: as much of them as a test has time for, and places that are here."""

BEFORE = {
    ("analysis.md", "opportune plan my.toml --out plan"): ["opportune new my.toml --yes"],
    ("analysis.md", "opportune monitor --db sqlite:///study.db --out board"): [
        "^C",
        "opportune rehearse my.toml --participants 12 --days 20 --keep rehearsed",
        "mv rehearsed/study.db study.db",
        "opportune keys add office --role admin",
        "export OPPORTUNE_KEY=...",
    ],
    ("coordinator.md", "opportune check study.toml"): [STUDY, NO_TIMES],
    ("coordinator.md", "rm rehearsal.db"): ["^C"],
    ("coordinator.md", "opportune status"): [
        "KEY=...",
        post("participants", '{"participant": "P001"}', "$OPPORTUNE_KEY"),
        post("participants/P001/decisions", '{"sensed": {"time_of_day": "morning", "stress": 3, "sleep": "poor"}}'),
    ],
    ("coordinator.md", 'opportune amend study.toml --reason "ethics committee, letter of 3 May"'): [
        "^C",
        "rm study.db*",
        "for file in restored.db*; do mv $file ${file/restored/study}; done",
        CHANGE,
    ],
    ("deploy.md", "opportune serve study.toml --db postgresql://opportune@localhost/study --workers 4"): [STUDY],
    ("operations.md", "opportune status"): [
        STUDY,
        "opportune serve study.toml",
        "opportune keys add office --role admin",
        "export OPPORTUNE_KEY=...",
    ],
    ("operations.md", "opportune restore backups/2026-03-29.backup --db sqlite:///study.db"): [
        "^C",
        "rm study.db* audit.db*",
    ],
    ("operations.md", "opportune upgrade"): [
        "rm study.db*",
        "opportune restore backups/2026-03-29.backup --db sqlite:///study.db",
    ],
    ("operations.md", 'opportune amend study.toml --reason "ethics board, letter of 3 May"'): [CHANGE],
    ("planning.md", "opportune plan calls-without-hours.toml --out without-hours"): [
        "sed -E '/^\\[staff\\]/,/^$/d; /^(quiet|per_day|per_week|.*gap.*) *=/d' calls.toml > calls-without-hours.toml",
    ],
    ("planning.md", "opportune calibrate my.toml pilot.csv --out calibrated.toml"): [PILOT],
    ("scale.md", "opportune simulate study.toml --cluster local"): [STUDY],
}
"""What a reader has done, by the words around a line, before typing it; ^C is Ctrl-C where the service runs."""

SAYS = {"check": "serve: ready", "restore": "verified: ", "verify": "verified: "}
"""What a command prints where all is well."""

LEFT = {
    "README.md": ["out/quick/report.html", "out/stress-messages-plan.html", "out/analysis/cardiac-calls-analysis.html"],
    "analysis.md": ["demo/report/*-analysis.html", "board/*.html", "report/my-analysis.html"],
    "coordinator.md": ["protocol.md", "data/dictionary.json", "report/*-analysis.html", "final.backup"],
    "operations.md": ["data/dictionary.json", "final.backup"],
    "planning.md": ["with-hours/*.html", "without-hours/*.html", "calibrated.toml"],
    "rehearsal.md": ["out/rehearsal/decisions.csv"],
    "reproduce.md": ["out/report.html", "out/quick/report.html", "out/seed-7/report.html"],
}
"""Files that must be there at the end of a page."""


class Terminal:
    """A folder in which lines are typed, and the service that runs there."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.folder, self._capsys, self._patch = folder, capsys, patch
        self.address = f"127.0.0.1:{free_port()}"
        self.printed, self.password = "", ""
        self.service: Started | None = None

    def type(self, line: str) -> None:
        """Do what a line says."""
        line = ADDRESS.sub(self.address, line)
        if line == "^C":
            self.stop()
        elif setting := SETTING.fullmatch(line):
            name, value = setting.groups()
            self._patch.setenv(name, self.printed.strip() if value == "..." else value)
        else:
            words = shlex.split(line)
            while "=" in words[0]:
                self._patch.setenv(*words.pop(0).split("=", 1))
            match words:
                case ["opportune", "serve" | "demo", *_]:
                    self._start(words[1:])
                case ["opportune", *rest, ">", file]:
                    self._run(rest)
                    (self.folder / file).write_text(self.printed, encoding="utf-8")
                case ["opportune", *rest]:
                    self._run(rest)
                case _:
                    bash = ["bash", "-c", line]
                    done = subprocess.run(bash, cwd=self.folder, capture_output=True, text=True, check=False)
                    assert done.returncode == 0, (line, done.stdout, done.stderr)
                    assert "urn:opportune:" not in done.stdout, (line, "is refused", done.stdout)
                    self.printed = done.stdout

    def _run(self, words: list[str]) -> None:
        """Run a command; the demonstration's coordinator signs in if it asks for somebody."""
        self._patch.setattr("sys.stdin", Keyboard("coordinator\n"))
        self._patch.setattr("getpass.getpass", lambda _prompt: self.password)
        code = cli.run(words)
        self.printed, err = self._capsys.readouterr()
        assert code == 0, (words, self.printed, err)
        assert SAYS.get(words[0], "") in self.printed, (words, self.printed)

    def _start(self, words: list[str]) -> None:
        """Start a service in place of the one that runs, and see it answer."""
        self.stop()
        port = self.address.rpartition(":")[2]
        self.service = Started(COMMAND, *words, "--port", port, cwd=self.folder, DISPLAY="", WAYLAND_DISPLAY="")
        self.service.until(self._answers)
        said = re.search(r"as coordinator .* password (\S+)", "\n".join(self.service.said()))
        self.password = said[1] if said else ""

    def _answers(self) -> bool:
        try:
            return httpx.get(f"http://{self.address}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """End the service with Ctrl-C."""
        if self.service is not None:
            with self.service:
                self.service.interrupt()
                assert self.service.ended(within=30) == 0, self.service.said()
            self.service = None


class Keyboard(io.StringIO):
    """What somebody types at a prompt."""

    def isatty(self) -> bool:
        """Somebody sits there."""
        return True


@pytest.fixture
def terminal(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal in an empty folder."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(folder)
    found = Terminal(folder, capsys, monkeypatch)
    yield found
    if found.service is not None:
        with found.service:
            pass


@pytest.mark.slow
@needs_linux
@named([page for page in PAGES if any(OURS.match(line) for line in command_lines(page))])
def test_commands_run(page: Path, terminal: Terminal, request: pytest.FixtureRequest) -> None:
    """Every line does what it says, with the files of the lines before; long ones with smaller numbers."""
    for line in command_lines(page):
        if line in NOT_TYPED:
            continue
        for before in BEFORE.get((page.name, line), []):
            terminal.type(before)
        typed = INSTEAD.get(line, line)
        if POSTGRESQL in typed:
            typed = typed.replace(POSTGRESQL, request.getfixturevalue("new_postgres"))
        terminal.type(typed)
        if line == PLANNED:
            shown = next(block.text for block in blocks(page) if block.info == "text")
            assert shown.split() == terminal.printed.split()
    terminal.stop()
    for file in LEFT.get(page.name, []):
        assert list(terminal.folder.glob(file)), file


def test_the_tables_name_lines_of_pages() -> None:
    """No line is left out, changed or prepared that no page has."""
    shown = [(page.name, line) for page in PAGES for line in command_lines(page)]
    assert {*NOT_TYPED, *INSTEAD, PLANNED} <= {line for _, line in shown}
    assert BEFORE.keys() <= {*shown}
    assert NOT_TYPED.keys().isdisjoint(INSTEAD)
