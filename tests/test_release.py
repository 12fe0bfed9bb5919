"""What a release consists of: the wheel has every file, runs outside the checkout, and says where things are."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from opportune import __version__

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOME = PROJECT["urls"]["Homepage"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout; building it needs no network."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    """Modules, templates, catalogues, migrations and examples are all in it, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if name.startswith("opportune/")}
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".nbi", ".nbc")
    }
    assert there == wanted


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout says which files there are")
def test_the_sdist_is_whole(tmp_path: Path) -> None:
    """Every file of the repository is in it, so that its own tests and `make release` find what they read."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    files = {path for path in map(Path, listed) if (ROOT / path).is_file()}
    assert {path.as_posix() for path in files} <= there
    app = {path.name for path in (ROOT / "src/opportune/rehearsal/app").iterdir()}
    assert {f"examples/app/{name}" for name in app} <= there


def test_the_readme_works_where_the_wheel_shows_it(wheel: Path) -> None:
    """Every link and picture of the description is an address of this version in the repository."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    text = metadata.get_payload()
    assert isinstance(text, str)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(targets) > 20
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    for target in targets:
        if target.startswith(HOME) and "/issues" not in target:
            kind, _, path = target.removeprefix(f"{HOME}/").partition(f"/v{__version__}/")
            assert kind in ("blob", "raw"), target
            assert (ROOT / path.partition("#")[0]).is_file(), target
    assert set(metadata.get_all("Project-URL") or []) >= {f"Homepage, {HOME}"}


def test_the_wheel_runs_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, beside the dependencies of this environment, it reads its own files and answers."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    code = (
        "import sys, opportune.cli.main as cli; print(cli.__file__); "
        "sys.exit(cli.run(['check', 'study.toml']) if sys.argv[1:] else cli.run(['example', 'cardiac-calls']))"
    )
    command = [sys.executable, "-c", code]
    example = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    place, _, text = example.stdout.partition("\n")
    assert Path(place).is_relative_to(tmp_path), place
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    checked = subprocess.run(
        [*command, "check"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert "serve: ready" in checked.stdout


def test_citation_and_project_agree() -> None:
    """CITATION.cff names this version and the place that pyproject.toml names; the changelog has the version."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    assert f'\nrepository-code: "{HOME}"\n' in citation
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_supported_python_is_tried() -> None:
    """The classifiers, the release script, the workflow and the page on support name the same versions."""
    classified = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    script = (ROOT / ".ci" / "release.py").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    support = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    versions = ", ".join(f'"{name}"' for name in classified)
    assert f"SUPPORTED = ({versions})" in script
    assert f"python: [{versions}]" in workflow
    assert f"{', '.join(classified[:-1])} and {classified[-1]}" in support
    assert PROJECT["requires-python"] == f">={classified[0]}"


def test_workflows_run_what_exists() -> None:
    """Every `make` target and script that the workflows run is there."""
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    matrix = re.findall(r"target: \[(.+)\]", text)
    named = {*re.findall(r"run: make ([a-z-]+)", text), *", ".join(matrix).split(", ")}
    assert named <= targets
    assert {"docs", "test-lowest", "test-newest"} <= named
    for script in re.findall(r"\.ci/[\w.]+", text):
        assert (ROOT / script).is_file(), script
