"""The container files: what they copy exists, what they run is a command that we have."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def parsed(arguments: list[str]) -> None:
    """Whether the command line knows these arguments; a study file that is not there is all that may be wrong."""
    from opportune.cli import main as cli
    from opportune.cli.shared import WRONG_USE

    assert cli.run([*arguments[:1], "/nowhere/study.toml", *arguments[2:]]) == WRONG_USE


def test_the_image_copies_what_exists_and_is_let_through() -> None:
    """Every file that is copied is there, and .dockerignore leaves it in."""
    sources = [name for line in re.findall(r"(?m)^COPY (.+)$", DOCKERFILE) for name in line.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert len(sources) >= 5
    for name in sources:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name
    extras = re.findall(r"'\.\[(\w+)\]'", DOCKERFILE)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert extras == ["serve"]
    assert re.search(r"(?m)^serve = \[", project)
    readme = re.search(r'fragments = \[\{ path = "(.+)" \}\]', project)
    assert readme is not None
    assert readme.group(1) in sources, "what the build needs"


def test_the_containers_run_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """The image's command and the one in compose.yaml: options that are known, a database by its variable."""
    from opportune.service.server import URL

    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    for text in (*re.findall(r"(?m)^CMD \[(.+)\]$", DOCKERFILE), *re.findall(r"command: \[(.+)\]", compose)):
        parsed([part.strip(",") for part in shlex.split(text)])
        assert "does not exist" in capsys.readouterr().err
    assert f"{URL}: postgresql://" in compose
    parsed_options = re.findall(r"exec service opportune (.+)", compose)
    assert parsed_options == ["people add NAME --role admin"]
