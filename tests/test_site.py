"""The documentation site builds without a warning, its links lead somewhere, and it reads well without the network."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from playwright.sync_api import Page as Tab

from browser import open_browser

ROOT = Path(__file__).resolve().parents[1]


class Page(HTMLParser):
    """The links of a page, and the places in it that links can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the links and ids of a tag."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" and value:
                self.places.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it; tutorials run on the way."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(out / "trees"), "docs", str(out)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return out


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    """Links within the site lead to a file and, where they name one, to a place in it; no page asks the network."""
    found_pages = (path for path in site.rglob("*.html") if "_static" not in path.parts)  # there: the theme's templates
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in found_pages}
    assert len(pages) > 25
    dead, outside = set(), set()
    for path, page in pages.items():
        for link in page.links:
            target, place = urldefrag(unquote(link))
            if target.startswith(("http:", "https:", "//")):
                outside.add(target)
                continue
            if target.startswith(("mailto:", "data:", "javascript:")):
                continue
            found = (path.parent / target.split("?")[0]).resolve() if target else path
            if not found.exists() or (place and found in pages and place not in pages[found].places):
                dead.add(f"{path.relative_to(site)}: {link}")
    assert not dead
    assert not {link for link in outside if link.endswith((".js", ".css", ".woff2", ".png"))}


@pytest.fixture(scope="module")
def tab(site: Path) -> Iterator[Tab]:
    """A phone without a network; what a page asks of the network fails the test."""
    with open_browser() as browser:
        context = browser.new_context(viewport={"width": 390, "height": 844}, offline=True)
        page = context.new_page()
        asked: list[str] = []
        page.on("requestfailed", lambda request: asked.append(request.url))
        yield page
        assert not [url for url in asked if url.startswith(("http:", "https:"))]


@pytest.mark.slow
@pytest.mark.browser
def test_formulas_need_no_network(tab: Tab, site: Path) -> None:
    """Formulas are set by the copy of MathJax that comes with the site."""
    tab.goto((site / "paper.html").as_uri())
    tab.wait_for_function("document.querySelectorAll('mjx-container').length > 20", timeout=60_000)
    tab.goto((site / "words.html").as_uri())
    assert tab.locator("mjx-container").count() == 0


@pytest.mark.slow
@pytest.mark.browser
def test_every_page_fits_a_phone(tab: Tab, site: Path) -> None:
    """No page is wider than a phone: wide tables and code scroll by themselves."""
    wide = {}
    for path in sorted(path for path in site.rglob("*.html") if "_static" not in path.parts):
        tab.goto(path.as_uri(), wait_until="domcontentloaded")
        wide[path.relative_to(site).as_posix()] = tab.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 390} == {}
    tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<div style=\"width: 500px\">.</div>')")
    assert tab.evaluate("document.documentElement.scrollWidth") > 390


@pytest.mark.slow
def test_the_rooms_hold_every_page(site: Path) -> None:
    """Each page of the folder is reached from one of the four rooms, and reference pages come from the code."""
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / f"{page.stem}.html").exists(), page.name
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert "opportune reproduce" in commands
    keys = (site / "reference" / "study-file-keys.html").read_text(encoding="utf-8")
    assert "noise_sd" in keys
    assert keys.count("when served, with") == 3
    assert "budget_left" in (site / "reference" / "http.html").read_text(encoding="utf-8")
    for tutorial in (ROOT / "docs" / "tutorials").glob("[0-9]*.py"):
        assert (site / "learn" / f"{tutorial.stem}.html").exists(), tutorial.name


@pytest.mark.slow
def test_properties_are_documented_as_written(site: Path) -> None:
    """No property's docstring is split at a colon into a type and a text."""
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert "action=walk:stress" in page
    assert not re.findall(r"<dt[^>]*>Type<span", page)


@pytest.mark.slow
@pytest.mark.browser
def test_long_words_are_not_cut_off(tab: Tab, site: Path) -> None:
    """Long addresses in headings and long commands in texts are broken, on a phone and on a desktop."""
    try:
        for width in (390, 1280):
            tab.set_viewport_size({"width": width, "height": 844})
            for page, parts in (("reference/http", "h2, article h3"), ("apps", "p"), ("paper", "section > p")):
                tab.goto((site / f"{page}.html").as_uri(), wait_until="domcontentloaded")
                cut = f"[...document.querySelectorAll('article {parts}')].filter(h => h.scrollWidth > h.clientWidth)"
                assert tab.evaluate(f"{cut}.map(h => h.innerText)") == []
    finally:
        tab.set_viewport_size({"width": 390, "height": 844})
