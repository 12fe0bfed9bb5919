"""The report page: what it reads, what it refuses, and what it tells."""

import base64
import errno
import json
import math
import re
import struct
import zlib
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from opportune.errors import DataError, WriteError
from opportune.experiments import NAMES
from opportune.experiments.record import checksum_of
from opportune.report import html as report
from opportune.report.page import write_report


def drawing(width: int = 200, height: int = 100, unit: str = "") -> str:
    """A small SVG: a line across a white sheet."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}{unit}" height="{height}{unit}" '
        f'viewBox="0 0 {width} {height}"><rect width="100%" height="100%" fill="white"/>'
        f'<path id="line" d="M0 {height}L{width} 0" stroke="black"/></svg>'
    )


def bitmap(width: int = 8, height: int = 4) -> bytes:
    """A small grey PNG."""

    def chunk(name: bytes, content: bytes) -> bytes:
        check = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def result(name: str, **changes: Any) -> dict[str, Any]:
    """What an experiment writes, small."""
    return {
        "experiment": name,
        "title": f"Title of {name}",
        "about": f"What {name} is about.",
        "config": {"seed": 1, "quick": False, "budgets": [10, 20], "noise_sd": 0.1},
        "numbers": {"regret": {"PD1": 84.1, "naive": math.nan}},
        "claims": [
            {"statement": f"{name} claim one", "verdict": "held", "evidence": f"{name} evidence one"},
            {"statement": f"{name} claim two", "verdict": "not held", "evidence": f"{name} evidence two"},
            {"statement": f"{name} claim three", "verdict": "not decided", "evidence": f"{name} evidence three"},
        ],
        "figures": [
            {
                "name": f"{name}-a",
                "caption": f"Caption of {name}",
                "alt": f"A line in {name}",
                "png": f"{name}-a.png",
                "svg": f"{name}-a.svg",
            }
        ],
        "tables": [{"caption": f"Table of {name}", "columns": ["", "B=2"], "rows": [["PD1", 0.77]]}],
        "seconds": 30.0,
        "finished": "2026-11-15T03:00:00+00:00",
        "versions": {"opportune": "0.1.0", "numpy": "2.3.4"},
        "machine": "2 cores, x86_64",
        "command": f"opportune reproduce {name} --seed 1",
    } | changes


def put(directory: Path, name: str, **changes: Any) -> Path:
    """Write an experiment's result with its figures; return the JSON file."""
    content = result(name, **changes)
    for figure in content["figures"]:
        (directory / figure["svg"]).write_text(drawing(), encoding="utf-8")
        (directory / figure["png"]).write_bytes(bitmap())
    file = directory / f"{name}.json"
    file.write_text(json.dumps(content | {"checksum": checksum_of(content)}), encoding="utf-8")
    return file


def page_of(directory: Path) -> str:
    """The page's source."""
    return write_report(directory).read_text(encoding="utf-8")


def words_of(page: str) -> str:
    """The page's text as a reader meets it, in one line."""
    body = page[page.index("<body>") :]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_page_holds_everything_an_experiment_says(tmp_path: Path) -> None:
    """Title, description, captions, claims, evidence, command, versions and machine are all on the page."""
    put(tmp_path, "regret")
    target = write_report(tmp_path)
    assert target == tmp_path / "report.html"
    words = words_of(target.read_text(encoding="utf-8"))
    content = result("regret")
    parts = [content["title"], content["about"], content["command"], content["machine"]]
    parts += [figure["caption"] for figure in content["figures"]]
    parts += [table["caption"] for table in content["tables"]]
    parts += [claim[key] for claim in content["claims"] for key in ("statement", "evidence")]
    parts += ["opportune 0.1.0", "numpy 2.3.4", "Seed 1", "15 November 2026, 03:00 UTC", "noise sd 0.1"]
    assert [part for part in parts if part not in words] == []


def test_every_claim_carries_its_verdict_in_words(tmp_path: Path) -> None:
    """Held, not held and not decided stand beside the claim as text, not as colour alone."""
    put(tmp_path, "regret")
    words = words_of(page_of(tmp_path))
    assert "Held : regret claim one regret evidence one" in words
    assert "Not held : regret claim two regret evidence two" in words
    assert "Not decided : regret claim three regret evidence three" in words


def test_summary_counts_over_all_experiments(tmp_path: Path) -> None:
    """The strip adds up experiments, verdicts and time."""
    put(tmp_path, "regret", seconds=30.0)
    put(tmp_path, "table", seconds=65.5)
    words = words_of(page_of(tmp_path))
    assert "experiments 2 claims held 2 claims not held 2 not decided 2 total time 1 min 36 s" in words


def test_claims_that_failed_are_listed_at_the_top(tmp_path: Path) -> None:
    """Every claim is named before the first experiment, failed ones first; without one there is no such list."""
    put(tmp_path, "regret")
    page = page_of(tmp_path)
    places = [
        page.index(text) for text in ("<h3>Not held</h3>", "claim two", "claim three", "claim one", 'id="regret"')
    ]
    assert places == sorted(places)
    put(tmp_path, "regret", claims=[{"statement": "All well", "verdict": "held", "evidence": ""}])
    assert "<h3>Not held</h3>" not in page_of(tmp_path)


def test_the_page_opens_with_what_was_found(tmp_path: Path) -> None:
    """Findings in words come first, the main ones before the others, with one figure, which is not shown twice."""
    for name in ("table", "regret", "oralytics", "pace"):
        put(tmp_path, name, found=f"Found in {name}.")
    pace = result("pace")
    pace["figures"][0]["name"] = "pace"
    put(tmp_path, "pace", found="Found in pace.", figures=pace["figures"])
    page = page_of(tmp_path)
    order = [f"Found in {name}." for name in ("pace", "regret", "oralytics", "table")]
    places = [page.index("What we found</h2>"), *map(page.index, order), page.index('id="verdicts-title"')]
    assert places == sorted(places)
    assert page.count('alt="A line in pace"') == 1
    assert page.index('alt="A line in pace"') < page.index('id="verdicts-title"')
    assert "Figure 1, under" in page
    (tmp_path / "plain").mkdir()
    put(tmp_path / "plain", "regret")
    assert "What we found" not in page_of(tmp_path / "plain")


def test_words_are_explained_at_the_end(tmp_path: Path) -> None:
    """The page ends with the words it uses."""
    put(tmp_path, "regret")
    page = page_of(tmp_path)
    assert page.index('id="again"') < page.index('id="words"')
    explained = " ".join(re.findall(r"<dt>([^<]+)</dt>", page[page.index('id="words"') :])).lower()
    for word in (
        "scale", "realised regret", "gap", "price", "instance", "competitive ratio", "plug-in", "optimistic", "pace",
    ):  # fmt: skip
        assert word in explained


def test_experiments_come_in_the_readers_order(tmp_path: Path) -> None:
    """The paper's experiments in their order, then the others by name."""
    expected = [*NAMES, "another", "zebra"]
    for name in sorted(expected, reverse=True):
        put(tmp_path, name)
    page = page_of(tmp_path)
    assert re.findall(r'<section class="experiment" id="([^"]+)"', page) == expected
    assert [at for at in re.findall(r'<li><a href="#([^"]+)"', page) if at in expected] == expected


def test_ids_are_unique_and_links_lead_somewhere(tmp_path: Path) -> None:
    """Every id occurs once, and every link within the page has a target."""
    for name in ("regret", "table", "opens"):
        put(tmp_path, name)
    page = page_of(tmp_path)
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    """No script, no style sheet, no image and no font from anywhere else."""
    put(tmp_path, "regret")
    page = page_of(tmp_path)
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert [at[:40] for at in addresses if not at.startswith(("#", "data:image/"))] == []


def test_figure_is_the_svg_itself(tmp_path: Path) -> None:
    """The drawing is inlined unchanged, with its alternative text and its size in CSS pixels."""
    put(tmp_path, "regret")
    svg = drawing(300, 150, "pt")
    (tmp_path / "regret-a.svg").write_text(svg, encoding="utf-8")
    page = page_of(tmp_path)
    [(uri, attributes)] = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"([^>]*)>', page)
    assert base64.b64decode(uri).decode("utf-8") == svg
    assert 'alt="A line in regret"' in attributes
    assert 'width="400" height="200"' in attributes


def test_heavy_drawing_gives_way_to_its_bitmap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An SVG beyond the limit is replaced by the PNG beside it."""
    put(tmp_path, "regret")
    monkeypatch.setattr(report, "LARGEST_SVG", 10)
    page = page_of(tmp_path)
    [(uri, attributes)] = re.findall(r'<img src="data:image/png;base64,([^"]+)"([^>]*)>', page)
    assert base64.b64decode(uri) == bitmap()
    assert 'width="8" height="4"' in attributes


def test_text_is_shown_not_run(tmp_path: Path) -> None:
    """Markup in a result is text on the page."""
    put(tmp_path, "regret", title="a < b & <script>c</script>", about='"quoted" <b>bold</b>')
    page = page_of(tmp_path)
    assert "<script" not in page
    assert "<b>bold" not in page
    assert "a &lt; b &amp; &lt;script&gt;c" in page


def test_quick_runs_say_so(tmp_path: Path) -> None:
    """A short trial is marked at the top and at its experiment; a full run is not."""
    put(tmp_path, "regret")
    put(tmp_path, "table")
    assert "Quick run." not in words_of(page_of(tmp_path))
    put(tmp_path, "opens", config={"seed": 1, "quick": True})
    words = words_of(page_of(tmp_path))
    assert "Quick run. Some experiments (opens) ran with few repetitions" in words
    assert words.count("· quick run") == 1


def test_results_of_different_runs_are_kept_apart(tmp_path: Path) -> None:
    """Each combination of seed, size, versions and machine gets its own recipe; one command does for each."""
    put(tmp_path, "regret")
    put(tmp_path, "table")
    page = page_of(tmp_path)
    assert page.count('class="origin"') == 1
    assert "not all run in one go" not in page
    assert "opportune reproduce table regret --seed 1 Experiments" in words_of(page)
    command = "opportune reproduce opens --seed 2"
    put(tmp_path, "opens", command=command, config={"seed": 2}, finished="2026-11-16T23:30:00-02:00")
    page = page_of(tmp_path)
    words = words_of(page)
    assert page.count('class="origin"') == 2
    assert f"{command} Experiments opens Seed 2" in words
    assert "Experiments table, regret Seed 1" in words
    assert "run from 15 November 2026 to 17 November 2026" in words


def test_experiment_without_figures_tables_claims_or_settings(tmp_path: Path) -> None:
    """The empty parts are left out, headings included."""
    put(tmp_path, "regret", figures=[], tables=[], claims=[], config={}, about="")
    page = page_of(tmp_path)
    words = words_of(page)
    assert "no claims" in words
    assert "Seed not recorded" in words
    for part in ("<figure", "<table", 'class="claims"', "Settings of this experiment"):
        assert part not in page


def test_tables_have_headers_and_numbers_line_up(tmp_path: Path) -> None:
    """Column and row headers are marked, an empty corner is not one, and numbers end at the right."""
    rows = [["PD1", 0.77, "0.8 ± 0.1", "fast"], ["PD2", None, "0.9 ± 0.1", "3 s slower"]]
    table = {"caption": "", "columns": ["", "ratio", "paper", "remark"], "rows": rows}
    put(tmp_path, "regret", tables=[table])
    page = page_of(tmp_path)
    assert "<td></td>" in page
    assert '<th scope="col" class="figures">ratio</th>' in page
    assert '<th scope="col" class="figures">paper</th>' in page
    assert '<th scope="col">remark</th>' in page
    row = '<tr><th scope="row">PD1</th><td class="figures">0.770</td><td class="figures">0.8 ± 0.1</td>'
    assert f'{row}<td class="short">fast' in page


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (0.77, "0.770"),
        (0.8049, "0.805"),
        (-0.0021, "−0.00210"),
        (75.04, "75.0"),
        (99.96, "100"),
        (418.2, "418"),
        (1234.5, "1234"),
        (9_999.7, "10,000"),
        (4.6e9, "4.60 × 10⁹"),
        (1.234e-7, "1.23 × 10⁻⁷"),
        (0.0, "0"),
        (math.nan, "–"),
        (-math.inf, "−∞"),
        (None, "–"),
        (True, "yes"),
        (300, "300"),
        (-12345, "−12,345"),
        ("-0.7700", "-0.7700"),
    ],
)
def test_cells_are_short_numbers(tmp_path: Path, cell: Any, shown: str) -> None:
    """Floats get three significant digits; text, whole numbers and gaps are shown as they are."""
    put(tmp_path, "regret", tables=[{"caption": "", "columns": ["", "x"], "rows": [["row", cell]]}])
    [found] = re.findall(r'<th scope="row">row</th><td[^>]*>([^<]*)</td>', page_of(tmp_path))
    assert found == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 0 s"), (3599.6, "1 h 0 min"), (3900.0, "1 h 5 min")],
)
def test_times_are_in_the_units_people_use(tmp_path: Path, seconds: float, shown: str) -> None:
    """Seconds, minutes or hours, whichever reads best."""
    put(tmp_path, "regret", seconds=seconds)
    assert f"total time {shown}" in words_of(page_of(tmp_path))


@pytest.mark.parametrize("make", [True, False])
def test_no_results(tmp_path: Path, make: bool) -> None:
    """An empty or missing directory is refused with what to do about it, and nothing is written."""
    directory = tmp_path / "results"
    if make:
        directory.mkdir()
    with pytest.raises(DataError, match=r"results.*run `opportune reproduce`"):
        write_report(directory)
    assert not list(tmp_path.rglob("*.html*"))


def test_foreign_json_is_left_alone(tmp_path: Path) -> None:
    """JSON that no experiment wrote does not count as a result, and does not stop the report."""
    (tmp_path / "notes.json").write_text('{"by": "somebody else"}', encoding="utf-8")
    (tmp_path / "list.json").write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(DataError, match="holds no results"):
        write_report(tmp_path)
    put(tmp_path, "regret")
    assert "somebody else" not in page_of(tmp_path)


@pytest.mark.parametrize("content", [b'{"experiment": "regret", ', b"", b"\xff\xfe\x00"])
def test_broken_json_names_the_file(tmp_path: Path, content: bytes) -> None:
    """A file cut short, empty or not text is named."""
    put(tmp_path, "table")
    (tmp_path / "regret.json").write_bytes(content)
    with pytest.raises(DataError, match=r"regret\.json is damaged: it cannot be read as JSON"):
        write_report(tmp_path)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"claims": [{"statement": "x", "verdict": "yes", "evidence": ""}]}, r"claims\.0\.verdict"),
        ({"claims": [{"statement": "x", "evidence": ""}]}, r"claims\.0\.verdict"),
        ({"title": ""}, "title"),
        ({"seconds": math.nan}, "seconds"),
        ({"seconds": -1.0}, "seconds"),
        ({"finished": "yesterday"}, "finished"),
        ({"finished": "2026-11-15T03:00:00"}, "finished"),
        ({"experiment": "a b"}, "experiment"),
        (
            {"tables": [{"caption": "", "columns": ["a", "b"], "rows": [[1]]}]},
            r"tables\.0.*row 0 has 1 cells",
        ),
    ],
)
def test_result_of_the_wrong_shape_names_file_and_field(tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    """What does not fit is refused with the file and the field."""
    put(tmp_path, "regret", **changes)
    with pytest.raises(DataError, match=rf"regret\.json is of another version: {where}"):
        write_report(tmp_path)


def test_one_experiment_in_two_files(tmp_path: Path) -> None:
    """A copy under another name is refused, naming both files."""
    copy = put(tmp_path, "regret").read_bytes()
    (tmp_path / "regret-old.json").write_bytes(copy)
    with pytest.raises(DataError, match=r"regret\.json: holds experiment 'regret', as regret-old\.json does"):
        write_report(tmp_path)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_missing_figure_names_the_file(tmp_path: Path, kind: str) -> None:
    """A figure whose file is gone is named."""
    put(tmp_path, "regret")
    (tmp_path / f"regret-a.{kind}").unlink()
    with pytest.raises(DataError, match=rf"regret-a\.{kind}: figure is missing"):
        write_report(tmp_path)


@pytest.mark.parametrize("content", ["", "<svg", "<svg/>", '<svg viewBox="0 0 0 5"/>', '<a viewBox="0 0 5 5"/>'])
def test_broken_svg_names_the_file(tmp_path: Path, content: str) -> None:
    """A drawing that no browser would show is named."""
    put(tmp_path, "regret")
    (tmp_path / "regret-a.svg").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"regret-a\.svg"):
        write_report(tmp_path)


def test_broken_png_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bitmap that is none is named."""
    put(tmp_path, "regret")
    (tmp_path / "regret-a.png").write_bytes(b"GIF89a")
    monkeypatch.setattr(report, "LARGEST_SVG", 10)
    with pytest.raises(DataError, match=r"regret-a\.png: not readable as PNG"):
        write_report(tmp_path)


def test_figures_come_from_the_directory_only(tmp_path: Path) -> None:
    """A path that leads out of the results is refused: the page would carry a file nobody meant to share."""
    inner = tmp_path / "results"
    inner.mkdir()
    figure = {"name": "x", "caption": "", "alt": "x", "png": "x.png", "svg": "../x.svg"}
    put(inner, "regret", figures=[figure])
    with pytest.raises(DataError, match="outside"):
        write_report(inner)


def test_report_appears_complete_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When writing fails, the earlier report stays and no part is left behind."""
    put(tmp_path, "regret")
    before = page_of(tmp_path)
    put(tmp_path, "table")

    def fail(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(WriteError, match=r"report\.html cannot be written: the disk is full$"):
        write_report(tmp_path)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == before
    assert not list(tmp_path.glob("*.part"))


def test_same_results_same_page(tmp_path: Path) -> None:
    """The page depends on the results alone: no clock, no machine."""
    put(tmp_path, "regret")
    assert page_of(tmp_path) == page_of(tmp_path)


def luminance(colour: str) -> float:
    """Relative luminance of a colour such as #1d2730, as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_text_stands_out_in_light_dark_and_print(tmp_path: Path) -> None:
    """Every colour of text has a contrast of at least 4.5 to every ground it stands on."""
    put(tmp_path, "regret")
    blocks = re.findall(r":root \{([^}]*--paper[^}]*)\}", page_of(tmp_path))
    assert len(blocks) == 3
    light, dark, printed = (dict(re.findall(r"--([a-z-]+): (#\w+);", block)) for block in blocks)
    full = {"#fff": "#ffffff"}
    for scheme in (light, dark, light | {key: full.get(value, value) for key, value in printed.items()}):
        for text in ("ink", "soft", "accent", "held", "not-held", "undecided"):
            for ground in ("paper", "card"):
                low, high = sorted((luminance(scheme[text]), luminance(scheme[ground])))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground, scheme)


def test_verdicts_differ_without_colour(tmp_path: Path) -> None:
    """Each verdict has a sign of its own shape and its own words: print and colour-blind readers see it too."""
    put(tmp_path, "regret")
    page = page_of(tmp_path)
    claims = re.findall(r'<li class="([a-z-]+)">\s*<span class="mark">(<svg.*?</svg>) ([A-Z][a-z ]+)<', page, re.DOTALL)
    assert [(kind, words) for kind, _, words in claims] == [
        ("held", "Held"), ("not-held", "Not held"), ("undecided", "Not decided"),
    ]  # fmt: skip
    assert len({sign for _, sign, _ in claims}) == 3
    assert ".claims > li.undecided { border-left-style: dashed; }" in page


def test_all_experiments_are_run_by_one_word(tmp_path: Path) -> None:
    """The command to run all experiments again says so; a quick run's says that too."""
    for name in NAMES:
        put(tmp_path, name, config={"seed": 3, "quick": True})
    assert "opportune reproduce all --seed 3 --quick Experiments" in words_of(page_of(tmp_path))
