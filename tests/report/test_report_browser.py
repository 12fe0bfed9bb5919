"""The report page in a real browser: it loads alone, fits a phone, prints, and hides nothing."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from test_report import drawing, put

import opportune as op
from browser import find_chromium, open_browser
from opportune.analysis.comparison import compare_policies, pick_reference
from opportune.cli.simulate import write_results
from opportune.report.page import write_report

WIDTHS = (1280, 360)
LONG = "Averyveryverylongnamewithoutanyspacewhatsoeverthatcannotbebrokenanywhereatall"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the whole file."""
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with what strains a layout: wide tables, wide figures, long words, many claims."""
    directory = tmp_path_factory.mktemp("results")
    columns = ["Policy", *(f"Budget B={2**k}" for k in range(9))]
    wide = {"caption": "Ours. " * 20, "columns": columns, "rows": [["PD1, paper", *[1234.5] * 9]] * 3}
    put(directory, "table", tables=[wide])
    put(directory, "regret", title=LONG, about=LONG, command=f"opportune reproduce all --out {LONG}")
    put(directory, "opens", config={"seed": 1, "quick": True, LONG: LONG})
    (directory / "regret-a.svg").write_text(drawing(1200, 300), encoding="utf-8")
    (directory / "opens-a.svg").write_text(drawing(300, 2000, "pt"), encoding="utf-8")
    return write_report(directory)


@pytest.fixture(scope="module")
def study_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a simulated study with long names, and figures of its own."""
    policies = [
        op.naive_ucb(4, name=LONG),
        op.pd2_ucb(4),
        op.pd2_ucb(8, name="PD2 B=8"),
        op.Policy(revealer=op.Never(), name="never"),
    ]
    data = op.simulate(op.synthetic_worlds(2, seed=1), policies, horizon=20, replicates=2, seed=1, progress=False)
    named = data.assign_attrs(study="tiny", study_file="[study]\n" + 40 * LONG, unit="points")
    stem = tmp_path_factory.mktemp("study") / "tiny"
    rows = compare_policies(named)
    return list(write_results(named, rows, pick_reference(named), stem, f"opportune simulate {LONG}.toml"))[-1]


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_a_study(chromium: Browser, study_report: Path, width: int) -> None:
    """It loads alone and without errors, fits desktop and phone, shows its figures, and labels stay readable."""
    asked: list[str] = []
    errors: list[str] = []
    with chromium.new_context(viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(study_report.as_uri(), wait_until="networkidle")
        page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
        assert [at for at in asked if not at.startswith("data:")] == [study_report.as_uri()]
        assert errors == []
        assert page.title() == "Opportune: tiny"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        images = page.locator("figure img")
        assert images.count() == 4
        for image in images.all():
            assert image.evaluate("i => i.naturalWidth > 0 && i.clientWidth / i.getAttribute('width')") > 0.75
        assert page.locator("#found li").count() >= 2
        assert page.locator("table").count() == 3
        links = page.locator("nav a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
        assert all(page.locator(link).count() == 1 for link in links)
        assert "`" not in page.locator("body").inner_text()


@pytest.mark.browser
def test_tables_do_not_hide_columns_beside_an_empty_margin(chromium: Browser, study_report: Path) -> None:
    """On a desktop a table of seven columns is seen whole; it scrolls only where the window is too narrow for it."""
    for width, hidden in ((1280, False), (390, True)):
        with chromium.new_context(viewport={"width": width, "height": 800}) as context:
            page = context.new_page()
            page.goto(study_report.as_uri())
            assert page.locator(".scroll").first.evaluate("e => e.scrollWidth > e.clientWidth") is hidden


@pytest.mark.browser
def test_labels_of_figures_stay_readable(page: Page) -> None:
    """No figure is shrunk below three quarters of the size it was drawn for, on a phone either: it scrolls instead."""
    for image in page.locator("figure img").all():
        assert image.evaluate("i => i.clientWidth / i.getAttribute('width')") > 0.65


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, chromium: Browser, report: Path) -> Iterator[Page]:
    """The report, open on a desktop and on a phone."""
    with chromium.new_context(viewport={"width": request.param, "height": 800}) as context:
        page = context.new_page()
        page.goto(report.as_uri())
        yield page


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_loads_alone_and_without_errors(chromium: Browser, report: Path, scheme: str) -> None:
    """Nothing but the file itself is asked for, and the console stays empty."""
    asked: list[str] = []
    errors: list[str] = []
    with chromium.new_context() as context:
        page = context.new_page()
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(report.as_uri(), wait_until="networkidle")
        assert page.title() == "Opportune: experiment report"
        assert page.evaluate("document.compatMode") == "CSS1Compat"
    assert [at for at in asked if not at.startswith("data:")] == [report.as_uri()]
    assert errors == []


@pytest.mark.browser
def test_every_figure_is_drawn(page: Page) -> None:
    """Each image was decoded, has room on the page, keeps its proportions and says in words what it shows."""
    images = page.locator("figure img")
    assert images.count() == 3
    for image in images.all():
        drawn, natural = (
            image.evaluate(f"i => [i.complete, i.{size}Width, i.{size}Height]") for size in ("client", "natural")
        )
        assert natural[0] is True
        assert natural[1] > 0
        assert drawn[1] > 0
        assert drawn[1] / drawn[2] == pytest.approx(natural[1] / natural[2], rel=0.02)
        assert image.get_attribute("alt")


@pytest.mark.browser
def test_every_claim_can_be_seen(page: Page) -> None:
    """Claims, verdicts and evidence are visible whatever the verdict, at equal size."""
    claims = page.locator(".claims > li")
    assert claims.count() == 9
    sizes = set()
    for claim in claims.all():
        for part in (".mark", ".said", ".evidence"):
            assert claim.locator(part).is_visible()
        assert re.match(r"(Held|Not held|Not decided)\b", claim.locator(".mark").inner_text().strip())
        sizes.add(claim.locator(".mark, .said").evaluate_all("all => '' + all.map(e => getComputedStyle(e).font)"))
    assert len(sizes) == 1


@pytest.mark.browser
def test_page_does_not_scroll_sideways(page: Page) -> None:
    """The page is as wide as the window even with all details open; tables scroll in their own boxes."""
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("window.innerWidth")
    beyond = page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter(e =>
            !e.closest('.scroll, .sheet, .skip, .hidden') && e.getBoundingClientRect().right > innerWidth + 1
        ).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert beyond == []


@pytest.mark.browser
def test_wide_table_scrolls_with_its_row_names_in_sight(chromium: Browser, report: Path) -> None:
    """On a phone the last column can be reached, and the row's name stays where it was."""
    with chromium.new_context(viewport={"width": 360, "height": 800}) as context:
        page = context.new_page()
        page.goto(report.as_uri())
        box = page.locator(".scroll").first
        name = box.locator("tbody th").first
        assert box.evaluate("e => e.scrollWidth > e.clientWidth")
        before = name.evaluate("e => e.getBoundingClientRect().left")
        box.evaluate("e => { e.scrollLeft = e.scrollWidth }")
        assert name.evaluate("e => e.getBoundingClientRect().left") == pytest.approx(before, abs=1)
        assert (
            box.locator("tbody tr")
            .first.locator("td")
            .last.evaluate("e => e.getBoundingClientRect().right <= innerWidth")
        )


@pytest.mark.browser
def test_contents_lead_to_the_experiments(page: Page) -> None:
    """A click in the contents brings that experiment into view."""
    page.locator("nav a[href='#opens']").click()
    top = page.locator("#opens").evaluate("e => e.getBoundingClientRect().top")
    assert -5 <= top <= 100


@pytest.mark.browser
def test_page_has_landmarks_and_one_main_heading(page: Page) -> None:
    """Readers by ear find banner, contents, main part and footer, and headings without a missing level."""
    for role in ("banner", "navigation", "main", "contentinfo"):
        assert page.locator(f"css=body >> role={role}").count() == 1
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.browser
def test_page_prints(chromium: Browser, report: Path) -> None:
    """Printed from a dark screen it is dark on white, shows what was folded, and cuts no figure."""
    with chromium.new_context(color_scheme="dark", viewport={"width": 660, "height": 1000}) as context:
        page = context.new_page()
        page.goto(report.as_uri())
        pdf = page.pdf(format="A4")
        assert pdf.startswith(b"%PDF-")
        assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 3
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 39, 48)"
        assert page.get_by_text("noise sd").first.is_visible()
        for figure in page.locator("figure").all():
            assert figure.evaluate("e => getComputedStyle(e).breakInside") == "avoid"
            height = figure.evaluate("e => e.getBoundingClientRect().height")
            assert height < (297 - 36) / 25.4 * 96  # what A4 leaves between the margins


def test_chromium_given_by_name(tmp_path: Path) -> None:
    """The variable wins over PATH; a wrong one fails rather than skips."""
    program = tmp_path / "my-chromium"
    program.touch()
    assert find_chromium({"OPPORTUNE_CHROMIUM": str(program), "PATH": ""}) == str(program)
    with pytest.raises(pytest.fail.Exception, match="OPPORTUNE_CHROMIUM is"):
        find_chromium({"OPPORTUNE_CHROMIUM": str(tmp_path / "none"), "PATH": ""})


def test_chromium_on_the_path(tmp_path: Path) -> None:
    """The first of the usual names is taken."""
    for name in ("google-chrome", "chromium-browser"):
        (tmp_path / name).touch(mode=0o755)
    assert find_chromium({"PATH": str(tmp_path)}) == str(tmp_path / "chromium-browser")


def test_no_chromium_skips_here_and_fails_on_continuous_integration(tmp_path: Path) -> None:
    """A missing browser is a gap on a developer's machine and an error where every test must run."""
    with pytest.raises(pytest.skip.Exception, match="Debian package `chromium`"):
        find_chromium({"PATH": str(tmp_path)})
    with pytest.raises(pytest.fail.Exception, match="Debian package `chromium`"):
        find_chromium({"PATH": str(tmp_path), "CI": "true"})
