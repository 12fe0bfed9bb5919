"""What README.md, docs and CHANGELOG.md say: code runs, commands parse, links lead somewhere, names exist."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from opportune import __version__
from opportune.cli import main as cli
from opportune.experiments import NAMES, find

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
GENERATED = {DOCS / "reference", DOCS / "learn"}  # of the site, made when it is built
PAGES = [README, *sorted(page for page in DOCS.rglob("*.md") if GENERATED.isdisjoint(page.parents))]
SITE = {"index.md", "howto.md", "reference.md", "explanation.md"}  # the rooms of the site
COMMAND: Any = typer.main.get_command(cli.app)
COMMANDS: dict[str, Any] = COMMAND.commands
SHELLS = ("sh", "console")
OTHER_NAMES = {"py": "python", "python3": "python", "pycon": "python", "bash": "sh", "shell": "sh", "zsh": "sh"}
FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)\n")
OPERATORS = {"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1"}


class Block(NamedTuple):
    """A fenced block: what is said to be in it, what is, and the line of the page it begins at."""

    info: str
    text: str
    line: int


class Link(NamedTuple):
    """A relative link: the file it leads to, and the heading in it, if any."""

    path: Path
    anchor: str
    target: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match["info"].strip(), match["text"], text.count("\n", 0, match.start("text")) + 1)
        for match in FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def command_lines(page: Path) -> Iterator[str]:
    """The lines of a page's shell blocks as a reader types them: without prompts, comments and what is printed."""
    for block in blocks(page):
        if block.info not in SHELLS:
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            if block.info == "console" and not line.startswith("$ "):
                continue  # what the command prints
            typed = re.sub(r"(^|\s+)#.*", "", line.removeprefix("$ ")).strip()
            if typed:
                yield re.sub(r"\s+", " ", typed)


def commands(page: Path) -> Iterator[list[str]]:
    """The command lines shown on a page, in words; what follows a pipe, a redirection or && is its own."""
    for line in command_lines(page):
        words: list[str] = []
        for word in shlex.split(line):
            if word in OPERATORS:
                yield words
                words = []
            else:
                words.append(word)
        yield words


def links(page: Path) -> Iterator[Link]:
    """The links and images of a page that stay within the project."""
    text = prose(page)
    found = re.findall(r"\]\(\s*<?([^\s)>]+)", text)
    found += re.findall(r"^\[[^\]]+\]:\s+(\S+)", text, flags=re.MULTILINE)
    found += re.findall(r"""(?:src|href|srcset)=["']([^"'\s]+)""", text)
    for target in found:
        if not re.match(r"[a-z][a-z0-9+.-]*:", target):
            path, _, anchor = target.partition("#")
            yield Link((page.parent / path).resolve() if path else page, anchor, target)


def anchors(page: Path) -> set[str]:
    """The anchors that headings get where pages are shown: lower case, no punctuation, dashes for spaces."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#{1,6}\s+(.+?)\s*#*$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def named(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=[page.relative_to(ROOT).as_posix() for page in pages])


def files(page: Path) -> dict[str, str]:
    """The Python files that a page has the reader write: blocks that begin with the file's name."""
    python = [block.text for block in blocks(page) if block.info == "python"]
    return {match[1]: text for text in python if (match := FILE.match(text))}


SERVED = DOCS / "service.md"  # its Python needs a service, and runs in tests/service
WITH_PYTHON = [page for page in PAGES if page != SERVED and any(block.info == "python" for block in blocks(page))]


@named([page for page in WITH_PYTHON if not files(page)])
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page's Python blocks run one after the other, as a reader who follows the page would run them."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    make_files(page, tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.info == "python":
            code = "\n" * (block.line - 1) + block.text  # so that an error names the line of the page
            exec(compile(code, str(page), "exec"), namespace)


@named([page for page in WITH_PYTHON if files(page)])
def test_files_and_python_run(page: Path, tmp_path: Path) -> None:
    """A page that has the reader write files: its other blocks run beside them, and so do its `python FILE` commands.

    In processes of their own, since rules must be registered before anything is compiled.
    """
    written = files(page)
    for name, text in written.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    rest = [block.text for block in blocks(page) if block.info == "python" and not FILE.match(block.text)]
    (tmp_path / "the_page.py").write_text("\n\n".join(rest), encoding="utf-8")
    run_python("the_page.py", tmp_path)
    shown = "".join(block.text for block in blocks(page) if block.info == "console")
    for words in commands(page):
        if words[:1] == ["python"]:
            assert words[1] in written, words
            assert run_python(words[1], tmp_path).strip() in shown


def run_python(file: str, folder: Path) -> str:
    """What a Python file prints."""
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    run = subprocess.run(
        [sys.executable, file], cwd=folder, env=environment, capture_output=True, text=True, timeout=1200, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def test_names_do_not_depend_on_earlier_imports() -> None:
    """What pages take from `opportune` can be called, also if a module of the same name was imported before."""
    code = (
        "import opportune.simulation.run, opportune as op; "
        "print([name for name in op.__all__ if not callable(getattr(op, name))])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['__version__', 'distributions', 'inference']"


def make_files(page: Path, folder: Path) -> None:
    """Make what the page has the reader make with `opportune simulate --example > FILE`."""
    for block in blocks(page):
        if block.info in SHELLS:
            for name in re.findall(r"opportune simulate --example\s*>\s*(\S+)", block.text):
                example = ROOT / "src" / "opportune" / "study" / "examples" / "stress-messages.toml"
                (folder / name).write_bytes(example.read_bytes())


@named(PAGES)
def test_blocks_have_names_that_are_tested(page: Path) -> None:
    """No block escapes the tests by another name of its language, or by having none."""
    for block in blocks(page):
        assert block.info, f"{page.name}, line {block.line}: a block without a language; ```text is plain text"
        assert block.info not in OTHER_NAMES, f"{page.name}, line {block.line}: ```{OTHER_NAMES[block.info]}"
    fences = re.findall(r"^\s*(`{3,}|~{3,})", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(fences) == 2 * len(blocks(page)), f"{page.name}: a fence is indented, open or made of tildes"


@named([*PAGES, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"))])
def test_no_page_is_a_draft(page: Path) -> None:
    """No page has a place that is still to be filled."""
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"@@\w*|\b(?:TODO|FIXME|TBD|XXX)\b", text)


@named([page for page in PAGES if any(block.info in SHELLS for block in blocks(page))])
def test_commands_parse(page: Path) -> None:
    """Every `opportune` command on a page has the options and arguments that the command takes."""
    for words in commands(page):
        if words and Path(words[0]).name == "opportune":
            parse(words[1:])


def parse(arguments: list[str]) -> None:
    """Parse a command line as the command does, without running it."""
    at = next((i for i, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
    with suppress(typer.Exit):  # help was shown
        COMMAND.make_context("opportune", [*arguments[:at], "--help"])
    if at == len(arguments):
        return
    name, rest = arguments[at], arguments[at + 1 :]
    assert name in COMMANDS, f"opportune {name}: there is no such command; there are {', '.join(COMMANDS)}"
    with suppress(typer.Exit):
        given = COMMANDS[name].make_context(name, rest).params.get("names")
        if name == "reproduce":
            assert given, "opportune reproduce: no experiment is named"
            assert set(given) <= {*NAMES, "all"}, f"opportune reproduce {' '.join(given)}"


def test_wrong_commands_are_noticed() -> None:
    """The check above refuses an unknown command, option, experiment or value."""
    parse(["reproduce", "all", "--quick", "--seed", "3"])
    for wrong in (
        ["reprodce", "all"],
        ["reproduce", "all", "--quik"],
        ["reproduce", "figure-7"],
        ["reproduce"],
        ["reproduce", "all", "--seed", "one"],
        ["--quick"],
    ):
        with pytest.raises((AssertionError, *usage_errors())):
            parse(wrong)


def usage_errors() -> tuple[type[Exception], ...]:
    """What parsing raises: the base class of typer's BadParameter, whichever click it is built on."""
    return tuple(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError")


@named(PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link and image leads to a file, and to a heading in it where it names one."""
    for link in links(page):
        assert link.path.exists(), f"{page.name} links to {link.target}, which does not exist"
        assert link.path.is_relative_to(ROOT), f"{page.name} links to {link.target}, outside the project"
        if link.anchor and link.path.suffix == ".md":
            assert link.anchor in anchors(link.path), f"{page.name} links to {link.target}: no such heading"


def test_links_into_the_repository_lead_to_folders_and_files() -> None:
    """A page that links to a folder of the repository links to a folder, not to a file in its place."""
    found = [
        (page, *link)
        for page in PAGES
        for link in re.findall(
            r"/opportune-developers/opportune/(tree|blob|raw)/main/([^)#\s]+)", page.read_text(encoding="utf-8")
        )
    ]
    assert found
    for page, kind, path in found:
        there = (ROOT / path).is_dir() if kind == "tree" else (ROOT / path).is_file()
        assert there, f"{page.name} links to {path}, which is not there as a {'folder' if kind == 'tree' else 'file'}"


def test_every_page_is_linked_from_the_readme() -> None:
    """Every page of docs is linked from the README, everything else there from some page."""
    from_readme = {link.path for link in links(README)}
    from_anywhere = {link.path for page in PAGES for link in links(page)}
    images = [path for path in (DOCS / "images").rglob("*") if path.is_file()]
    for path in [*(page for page in PAGES[1:] if page.name not in SITE), *images]:
        wanted = from_readme if path.suffix == ".md" else from_anywhere
        assert path in wanted, f"{path.relative_to(ROOT)} is linked from nowhere"


def test_the_changelog_has_this_version() -> None:
    """The changelog says something about this version, or about what is not released yet."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## \[?([^\]\s]+)[^\n]*\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))
    assert any(sections.get(name, "").strip() for name in (__version__, "Unreleased")), sections.keys()


def table_names(heading: str) -> list[str]:
    """The dotted names in code in the tables of a section of paper.md."""
    text = (DOCS / "paper.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    (body,) = (part for part in section if part.startswith(heading))
    rows = "\n".join(line for line in body.splitlines() if line.startswith("|"))
    return re.findall(r"`([A-Za-z_]\w*(?:\.\w+)+)`", rows)


def test_functions_that_paper_names_exist() -> None:
    """Every function and every test in the paper's table exists."""
    names = table_names("Which line is which function")
    assert len(names) > 60
    tests = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    for name in dict.fromkeys(names):
        first, _, rest = name.partition(".")
        if first.startswith("test_"):
            assert f"\ndef {rest}(" in tests.get(first, ""), name
        else:
            assert resolves(name), name


def resolves(name: str) -> bool:
    """Whether a dotted name from `opportune` on is something in a module."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        with suppress(ModuleNotFoundError):
            thing: Any = import_module(".".join(["opportune", *parts[:size]]))
            for part in parts[size:]:
                thing = getattr(thing, part, None)
            return thing is not None
    return False


def test_tests_that_security_names_exist() -> None:
    """Each promise of the page on security names a test that is there."""
    rows = [line for line in (DOCS / "security.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    for row in rows[1:]:
        names = re.findall(r"`([\w/]+/(?:test_\w+\.py)?)`", row.rpartition(" | ")[2])
        assert names, row
        for name in names:
            assert (ROOT / "tests" / "service" / name).exists(), name


def test_experiments_are_described() -> None:
    """The page on reproducing says of each experiment what it asks and what was found."""
    text = (DOCS / "reproduce.md").read_text(encoding="utf-8")
    asked, found = text.split("\n## What we found\n")
    for name in NAMES:
        assert f"\n### {name}\n" in asked, name
        assert f"\n### {find(name).title}\n" in found, name
