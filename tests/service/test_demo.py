"""`opportune demo`: one command, and there is a study to look at whose course ends now."""

import datetime as dt
import os
import re
import signal
import socket
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import free_port

from opportune.cli import demo as command
from opportune.cli import main as cli
from opportune.rehearsal import demo
from opportune.rehearsal.demo_texts import NOTES, REASONS
from opportune.service.record.database import Database
from opportune.service.record.queries import alert_rows, event_rows, open_nudges, participant_rows, rows
from opportune.service.record.tables import calls as calls_table
from opportune.service.record.tables import decisions
from opportune.service.state import clock
from opportune.service.verify.check import verify
from processes import COMMAND, Started, needs_linux

ZONE = "Europe/Berlin"


@pytest.fixture(scope="module", params=["morning", "evening"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, int]]:
    """The study, filled at one or the other time of day."""
    real = dt.datetime.now(clock.zone(ZONE))
    hour = 11 if request.param == "morning" else 20
    now = (real - dt.timedelta(days=1)).replace(hour=hour, minute=12)

    database = demo.fill(tmp_path_factory.mktemp("demo"), timezone=ZONE, now=now)
    yield database, clock.from_datetime(now)
    database.close()


def test_there_is_something_to_do_now(filled: tuple[Database, int]) -> None:
    """Calls wait, the first before long and the last in an hour or more; some were made since; one was tried."""
    database, now = filled
    left = [(row["expires"] - now) / clock.MINUTE for row in open_nudges(database, limit=100)]
    assert len(left) >= 4
    assert 0 < left[0] < 45
    assert left[-1] > 60
    made = rows(database, calls_table.select())
    assert sum(row["tries"] for row in made) == 1
    latest = rows(database, decisions.select().where(decisions.c.nudge, decisions.c.settled > now - clock.HOUR))
    assert len(latest) >= 1
    happened = [row["happened"] for row in rows(database, decisions.select())]
    assert now - 10 * clock.MINUTE < max(happened) <= now, "the course ends now"


def test_the_advice_changes_whatever_is_answered(filled: tuple[Database, int]) -> None:
    """Somebody waits for whom every answer changes the advice, with time to look."""
    database, now = filled
    found = demo.most_changed(database, now)
    assert found is not None
    assert found.always
    assert demo.participant_to_watch(database, now) == found.participant


@pytest.mark.slow
@pytest.mark.parametrize("hour", range(24))
def test_the_advice_changes_at_every_hour(hour: int, tmp_path: Path) -> None:
    """Somebody waits for whom every answer changes the advice, at each hour of the day."""
    now = dt.datetime(2031, 3, 3, hour, 41, tzinfo=dt.UTC)
    database = demo.fill(tmp_path, timezone=ZONE, now=now)
    found = demo.most_changed(database, clock.from_datetime(now))
    database.close()
    assert found is not None
    assert found.always


def test_the_demonstration_is_the_same_in_every_language(tmp_path: Path) -> None:
    """In German and French the same is decided, asked, answered and learned as in English, in other words."""
    now, made = dt.datetime(2031, 3, 3, 9, 41, tzinfo=dt.UTC), []
    for language in ("en", "de", "fr"):
        (tmp_path / language).mkdir()
        database = demo.fill(tmp_path / language, timezone=ZONE, language=language, now=now)
        same = ("participant", "step", "happened", "probability", "coin", "nudge", "outcome", "revealed", "reward")
        made.append([tuple(row[name] for name in same) for row in rows(database, decisions.select())])
        database.close()
    assert made[0] == made[1] == made[2]
    assert len(made[0]) > 1000


def test_it_is_a_study_as_they_are(filled: tuple[Database, int]) -> None:
    """Some are paused or have left, notes were written, rewards are missing, there are alerts, none of them red."""
    database, now = filled
    people = participant_rows(database, limit=100)
    assert Counter(row["status"] for row in people) == {"active": 36, "paused": 2, "withdrawn": 2}
    assert all(row["reason"] for row in people if row["status"] != "active")
    kinds = Counter(row["kind"] for row in event_rows(database, limit=100_000))
    assert kinds["noted"] == 7
    waiting = decisions.select().where(decisions.c.reward_due.is_not(None), decisions.c.status == "settled")
    assert any(row["happened"] < now - 24 * clock.HOUR for row in rows(database, waiting))
    alerts = alert_rows(database)
    assert "silent" in {alert["code"] for alert in alerts}
    assert "red" not in {alert["level"] for alert in alerts}
    assert {row["outcome"] for row in rows(database, decisions.select())} >= {"answered", "unanswered", "opened"}


def test_the_record_verifies(filled: tuple[Database, int]) -> None:
    """Times in the record go forward."""
    database, _ = filled
    verdict = verify(database)
    assert verdict.findings == []
    assert verdict.decisions > 1000


@pytest.mark.parametrize("hour", range(24))
def test_whatever_time_it_is(hour: int) -> None:
    """The latest decision time was less than two hours ago, and belongs to the day and place that it says."""
    now = dt.datetime(2031, 3, 3, hour, 7, tzinfo=dt.UTC)
    when = demo.clock_for(now)
    assert dt.timedelta(minutes=100) < now - when.latest < dt.timedelta(hours=2)
    assert when.times == tuple(sorted(when.times))
    assert when.latest.strftime("%H:%M") == when.times[when.place]


@pytest.mark.parametrize("language", ["de", "fr"])
def test_languages_decide_alike(language: str) -> None:
    """The study files in other languages differ from the English one in their texts only."""
    texts = {"label", "description", "question", "answers", "unit", "name", "plural", "language", "level_labels"}

    def numbers(table: Any) -> Any:
        if isinstance(table, dict):
            return {key: numbers(value) for key, value in table.items() if key not in texts}
        return table

    folder = files("opportune.rehearsal")
    english, other = (
        tomllib.loads(folder.joinpath(name).read_text(encoding="utf-8"))
        for name in ("demo_study.toml", f"demo_study.{language}.toml")
    )
    assert numbers(english) == numbers(other)
    assert english != other
    assert REASONS[language].keys() == REASONS["en"].keys()
    assert [note[:2] for note in NOTES[language]] == [note[:2] for note in NOTES["en"]]


@needs_linux
def test_the_command(tmp_path: Path) -> None:
    """The page is there, signed in by the link, in the language asked for; Ctrl-C ends it and leaves what is kept."""
    port, kept = free_port(), tmp_path / "kept"
    options = ("demo", "--no-browser", "--port", str(port), "--language", "de", "--keep", str(kept))
    with Started(COMMAND, *options, cwd=tmp_path, TZ=ZONE) as process:

        def link() -> str:
            return "".join(re.findall(rf"http://127.0.0.1:{port}/signin\?link=\S+", "\n".join(process.said())))

        process.until(link)
        with httpx.Client() as browser:
            process.until(lambda: _ready(port))
            page = browser.get(link(), follow_redirects=True)
            assert page.url.path == "/today"
            assert 'lang="de"' in page.text
            assert "minutes left" not in page.text
            assert re.search("spazieren gehen|Dehnübungen|ruhig atmen", page.text)
            again = httpx.get(link(), follow_redirects=True)
            assert again.status_code == 401, "good once"
        assert sum("with the password" in line for line in process.said()) == 2
        assert not any(line.startswith("{") for line in process.said()), "what is said is for people"
        process.interrupt()
        assert process.ended(within=30) == 0
        further = f"continue with opportune serve {kept / 'study.toml'} --rehearsal"
        assert process.said()[-2] == f"the demonstration is over; {further}"
        assert process.said()[-1].startswith("to analyse it: opportune analyse --db sqlite:///")
    database = Database(f"sqlite:///{kept / 'study.db'}")
    assert verify(database).findings == []
    database.close()


@needs_linux
def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    """Its folder is there while it runs, and gone when its terminal is closed or it is told to end."""
    port, temporary = free_port(), tmp_path / "temporary"
    temporary.mkdir()
    with Started(COMMAND, "demo", "--port", str(port), cwd=tmp_path, TMPDIR=str(temporary), DISPLAY="") as process:
        process.until(lambda: _ready(port))
        assert list(temporary.glob("opportune-demo-*/study.db"))
        os.kill(process.process.pid, signal.SIGTERM)
        assert process.ended(within=30) == 0
    assert list(temporary.glob("opportune-demo-*")) == []


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each option that cannot be, and the code is 2."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine", encoding="utf-8")
    taken = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        other.listen()
        for options, said in (
            (["--port", str(taken)], f"--port is {taken}, which cannot be used"),
            (["--port", "70000"], "'--port'"),
            (["--language", "tlh"], "--language is 'tlh'; expected"),
            (["--keep", str(tmp_path / "full")], "which contains files; expected a new or empty folder"),
            (["--keep", str(tmp_path / "full" / "file")], "which cannot be a folder"),
        ):
            code = cli.run(["demo", "--no-browser", *(options if "--port" in options else ["--port", "0", *options])])
            err = capsys.readouterr().err
            assert code == 2, err
            assert said in err
            assert len(err.splitlines()) == 1
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]


def test_the_browser_opens_once_the_pages_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nurse's and the phone's; not before, as they would show an error."""
    opened: list[str] = []
    answers = iter([503, 200])
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(httpx, "get", lambda _address: httpx.Response(next(answers)))
    links = ["http://127.0.0.1:1/signin?link=x", "http://127.0.0.1:1/app/index.html#opr_x"]
    command._open("http://127.0.0.1:1", links)
    assert opened == links
    assert next(answers, None) is None


@pytest.mark.parametrize(("display", "wanted"), [(":0", True), ("", False)])
def test_no_browser_in_the_terminal(monkeypatch: pytest.MonkeyPatch, display: str, wanted: bool) -> None:
    """On a machine without a screen only the address is printed."""
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", display)
    assert command._has_display() == wanted
