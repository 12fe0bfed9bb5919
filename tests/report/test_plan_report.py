"""The report of a plan: what it says, what lies beside it, and how it looks in a real browser."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browser import open_browser
from opportune.planning import Plan, plan
from opportune.planning.words import sentence
from opportune.report.planning import write_plan
from opportune.study import parse_study

STUDY = """\
[study]
name = "short-plan"
horizon = 16
actions = ["rest", "walk"]
budgets = [3, 6]

[variables.stress]
levels = ["low <b>", "high"]

[reward]
formula = "1 + action*stress"
noise_sd = 0.3
unit = "minutes"

[effects]
"action=walk" = { mean = -1.0, sd = 0.2 }
"action=walk:stress=high" = { mean = 2.0, sd = 0.2 }
"*" = 0.0

[nudge]
name = "call"
minutes = 6

[participants]
planned = 8
"""
COMMAND = "opportune plan short.toml --out out"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan(parse_study(STUDY), out=tmp_path_factory.mktemp("parts"), replicates=6, target=0.5, progress=False)


@pytest.fixture(scope="module")
def report(made: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_plan(made, tmp_path_factory.mktemp("plan"), COMMAND)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(params=[1280, 360])
def page(request: pytest.FixtureRequest, chromium: Browser, report: Path) -> Iterator[Page]:
    """The report, open on a desktop and on a phone."""
    with chromium.new_context(viewport={"width": request.param, "height": 800}) as context:
        page = context.new_page()
        page.goto(report.as_uri())
        yield page


def test_the_recommendation_comes_first(report: Path, made: Plan) -> None:
    """Words before figures: the sentence of the command line opens the page; assumptions and command close it."""
    text = report.read_text(encoding="utf-8")
    assert report.name == "short-plan-plan.html"
    order = [text.index(f'id="{name}"') for name in
             ("found", "value", "workload", "fairness", "robustness", "power", "assumptions", "again")]  # fmt: skip
    assert order == sorted(order)
    assert sentence(made)[:30] in text[order[0] : order[1]]
    assert COMMAND in text
    assert "[world] response_rate" in text


def test_names_from_the_study_file_are_text(report: Path) -> None:
    """A level's name that looks like a tag is shown as it is written."""
    text = report.read_text(encoding="utf-8")
    assert "low &lt;b&gt;" in text
    assert "low <b>" not in text


def test_every_table_lies_beside_the_page(report: Path, made: Plan) -> None:
    """Each table is a CSV file with as many rows, named on the page."""
    text = report.read_text(encoding="utf-8")
    for name, frame in made.tables().items():
        file = report.with_name(f"short-plan-plan-{name}.csv")
        with file.open(newline="", encoding="utf-8") as opened:
            rows = list(csv.reader(opened))
        assert rows[0] == list(frame.columns)
        assert len(rows) == len(frame) + 1
        assert file.name in text
    assert report.with_name("short-plan-plan-value.svg").is_file()


def test_words_among_numbers_keep_their_column(report: Path) -> None:
    """A column of numbers stays one where a few words stand in their place; columns of words are words."""
    text = report.read_text(encoding="utf-8")
    assert re.search(r'<th scope="col" class="figures">calls each</th>', text)  # "every decision" is among them
    assert re.search(r'<td class="figures">every decision</td>', text)
    assert re.search(r'<th scope="col">what changes</th>', text)
    assert re.search(r'<td class="prose">contexts do not arrive as', text)
    assert re.search(r'<td class="short">own</td>', text)


@pytest.mark.browser
def test_the_page_loads_alone(chromium: Browser, report: Path) -> None:
    """Nothing but the file itself is asked for, and the console stays empty."""
    asked: list[str] = []
    errors: list[str] = []
    with chromium.new_context() as context:
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(report.as_uri())
        page.wait_for_load_state("networkidle")
        whole = page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert errors == []
    assert whole


@pytest.mark.browser
def test_the_page_fits_its_window(page: Page) -> None:
    """Nothing makes the page scroll sideways, at either width; figures and tables are all there, numbered in order."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for kind, tag in (("Figure", "figcaption"), ("Table", "caption")):
        shown = page.locator(tag).all_inner_texts()
        numbers = [int(found[1]) for text in shown if (found := re.match(rf"{kind} (\d+)\.", text))]
        assert numbers == list(range(1, len(shown) + 1)), kind
    assert page.locator("figure img").count() == 7


@pytest.mark.browser
def test_the_contents_lead_to_their_sections(page: Page) -> None:
    """Every entry of the contents is a section with a heading."""
    for link in page.locator("nav a").all():
        target = link.get_attribute("href")
        assert target is not None
        assert page.locator(f"{target} h2").count() == 1


@pytest.mark.browser
def test_the_page_can_be_printed(chromium: Browser, report: Path, tmp_path: Path) -> None:
    """Printing gives a few sheets of A4, not one endless one."""
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(report.as_uri())
        page.pdf(path=tmp_path / "plan.pdf", format="A4")
    pages = len(re.findall(rb"/Type\s*/Page[^s]", (tmp_path / "plan.pdf").read_bytes()))
    assert 4 <= pages <= 20
