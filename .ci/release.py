"""Check a release: build it, install it into empty environments, try it there, and say what is left to do by hand.

`make release` runs this. `--python 3.12` tries that version only; without it, every supported version found here.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
SUPPORTED = ("3.11", "3.12", "3.13")


def main() -> None:
    """Build, check, install and try; the first thing that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", metavar="VERSION", help="a version to try; may be repeated")
    wanted = parser.parse_args().python or list(SUPPORTED)
    version = checked_version()
    built = build()
    found = {name: path for name in wanted if (path := interpreter(name))}
    if not found:
        sys.exit(f"none of Python {', '.join(wanted)} was found")
    for name, python in found.items():
        for file in built if name == next(iter(found)) else built[:1]:
            print(f"Python {name}, {file.name}:", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                try_out(python, file, Path(folder))
    missing = [name for name in wanted if name not in found]
    print(by_hand(version, missing))


def checked_version() -> str:
    """The version, the same in the package, the changelog and the citation; CITATION.cff and pyproject.toml agree."""
    package = (ROOT / "src" / "opportune" / "_version.py").read_text(encoding="utf-8")
    version = re.findall(r'__version__ = "(.+)"', package)[0]
    for name, text in (("CHANGELOG.md", f"## {version}"), ("CITATION.cff", f"version: {version}\n")):
        if text not in (ROOT / name).read_text(encoding="utf-8"):
            sys.exit(f"{name} does not have {text.strip()!r}")
    return version


def build() -> list[Path]:
    """The wheel and the sdist, with metadata that package indexes accept."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    built = [*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")]
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, built))
    return built


def interpreter(version: str) -> str | None:
    """A Python of this version on this machine, whichever way it was installed."""
    found = subprocess.run(
        [sys.executable, "-m", "uv", "python", "find", "--no-project", "--offline", version],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode == 0:
        return found.stdout.strip()
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return str(pyenv[-1]) if pyenv else None


def try_out(python: str, file: Path, folder: Path) -> None:
    """Install a built file into an empty environment outside the checkout, and run the smoke test there."""
    run(python, "-m", "venv", str(folder / "venv"))
    new = folder / "venv" / "bin"
    run(str(new / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{file}[serve]")
    work = folder / "work"
    work.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OPPORTUNE"))}
    smoke = [str(new / "python"), str(ROOT / ".ci" / "smoke.py"), str(new / "opportune")]
    subprocess.run(smoke, cwd=work, env=clean, check=True)


def run(*command: str) -> None:
    """Run a command; its failure ends everything."""
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"failed: {' '.join(command)}")


def by_hand(version: str, missing: list[str]) -> str:
    """What nobody can do but a person."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    steps = [
        f"See that {project['urls']['Homepage']} is where this repository is (pyproject.toml, CITATION.cff).",
        *([f"Try Python {', '.join(missing)}, which this machine does not have."] if missing else []),
        "Run `make test`, `make test-lowest` and `make test-newest`.",
        "Where a builder runs: docker build -t opportune . && docker run --rm opportune --version",
        f"Put the date into CHANGELOG.md (## {version}) and CITATION.cff (date-released), and commit.",
        f"git tag -s v{version} -m 'Opportune {version}' && git push --tags",
        "python -m twine upload dist/*",
        "Look at the README where the package index shows it: its pictures and its links.",
        "Put out/docs (make docs) where the site is served.",
    ]
    return "\nLeft to do by hand:\n" + "\n".join(f"  {number}. {step}" for number, step in enumerate(steps, 1))


if __name__ == "__main__":
    main()
