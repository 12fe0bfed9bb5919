"""docs/coordinator.md: its commands, one after the other, as somebody who follows the page would type them."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from servers import free_port

from opportune.cli import main as cli
from opportune.rehearsal.demo import study_text
from processes import COMMAND, Started, needs_linux
from test_docs import DOCS, commands

PAGE = DOCS / "coordinator.md"


class Desk:
    """A folder, and a service that runs in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.folder, self._capsys, self._patch = folder, capsys, patch
        self.port, self.printed = free_port(), ""
        self.done: list[str] = []
        self.service: Started | None = None

    def type(self, words: list[str]) -> None:
        """Do what a line says."""
        match words:
            case ["opportune", "serve", *_]:
                self.serve(words[1:])
            case ["opportune", "analyse", *_]:  # of decisions: tests/trial; nobody has made one here
                assert cli.run(words[1:]) == 2
                assert "decisions.csv has no rows; expected at least one" in self._capsys.readouterr().err
            case ["opportune", *rest]:
                extra = ["--url", f"http://127.0.0.1:{self.port}"] if rest[0] == "rehearse" else []
                code = cli.run([*rest, *extra])
                self.printed, err = self._capsys.readouterr()
                assert code == 0, (words, err)
            case ["export", setting]:
                self._patch.setenv(setting.split("=")[0], self.printed.strip())
            case [setting, "opportune", *rest] if "=" in setting:  # a folder, named by a variable
                self._patch.setenv(setting.split("=")[0], str(self.folder))
                self.type(["opportune", *rest])
                return
            case ["rm", name]:
                self.stop()
                (self.folder / name).unlink()
            case ["mkdir", name]:
                (self.folder / name).mkdir()
            case _:
                raise AssertionError(f"what is {words}?")
        self.done.append(" ".join(words[:2]))

    def serve(self, words: list[str]) -> None:
        """Start the service, in place of the one that runs."""
        self.stop()
        self.port = free_port()
        self.service = Started(COMMAND, *words, "--port", str(self.port), cwd=self.folder)
        self.service.until(self._ready)

    def _ready(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """Stop the service with Ctrl-C."""
        if self.service is not None:
            with self.service:
                self.service.interrupt()
                assert self.service.ended(within=30) == 0
            self.service = None


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A folder with a study file."""
    (tmp_path / "study.toml").write_text(study_text(("08:00", "16:00"), "Europe/Berlin"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = Desk(tmp_path, capsys, monkeypatch)
    yield found
    if found.service is not None:
        with found.service:
            pass


@needs_linux
def test_the_page_can_be_followed(desk: Desk) -> None:
    """Rehearse, launch, a day, an outage, an amendment, the end; what each leaves behind is there."""
    for words in commands(PAGE):
        if words == ["opportune", "demo"]:
            continue  # tests/service/test_demo.py
        if words[1] == "amend":
            desk.stop()
            (desk.folder / "study.db").unlink()  # the restored one goes on, on a machine of its own
            (desk.folder / "restored.db").rename(desk.folder / "study.db")
            file = desk.folder / "study.toml"
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace('fallback = "walk"', 'fallback = "stretch"'), encoding="utf-8")
        desk.type(words)
        if words[1] == "check":
            assert "serve: ready" in desk.printed
        if words[1] == "rehearse":
            assert "are those of simulate" in desk.printed
        if words[1] in {"verify", "restore"}:
            assert "verified: " in desk.printed
    assert {"opportune rehearse", "opportune restore", "opportune amend", "opportune close"} <= set(desk.done)
    assert (desk.folder / "data" / "dictionary.json").is_file()
    assert (desk.folder / "final.backup").is_file()


def test_what_it_says_of_roles_is_so() -> None:
    """The roles of its table are those that there are."""
    from opportune.service.accounts.keys import ROLES

    found = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(found) == sorted(ROLES)
