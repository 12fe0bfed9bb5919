"""Enrolment with a baseline in a real browser: wide and narrow, in three languages, with valid and invalid input."""

from collections.abc import Iterator
from importlib.resources import files

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from servers import Parent, free_port, parent

from browser import open_browser
from opportune.service.accounts.people import add_person
from opportune.service.record.database import Database
from opportune.service.record.queries import participant_rows
from opportune.service.server import launch
from opportune.service.state.study import StudyInForce

pytestmark = pytest.mark.browser
PASSWORD = "correct horse battery"
WIDTHS = {"desktop": 1280, "phone": 375}
WORDS = {
    "en-GB": ("Sign in", "Pseudonym", "Time zone", "Enrol", "name of a time zone", "from 40 to 85.", "Enrolled."),
    "de-DE": ("Anmelden", "Pseudonym", "Zeitzone", "Aufnehmen", "Namen einer Zeitzone", "von 40 bis 85", "Aufgenommen"),
    "fr-FR": ("Se connecter", "Pseudonyme", "Fuseau", "Inclure", "nom d'un fuseau horaire", "de 40 à 85.", "Inclus."),
}
"""The button to sign in, two fields, the button to enrol, two refusals, and success."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Parent]:
    """Starts servers."""
    with parent() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium."""
    with open_browser() as found:
        yield found


@pytest.fixture
def address(sqlite: Database, servers: Parent) -> Iterator[str]:
    """A study that needs a site and an age of everybody, and Anna, who enrols."""
    text = files("opportune.study.examples").joinpath("cardiac-calls.toml").read_text(encoding="utf-8")
    launch(sqlite, StudyInForce.from_text(text.replace("[serve]\n", '[serve]\nsecond_factor = "nobody"\n')))
    add_person(sqlite, "anna", "staff", PASSWORD)
    port = free_port()
    pid = servers.start(sqlite.url, port)
    yield f"http://127.0.0.1:{port}"
    servers.kill(pid)


def sound(page: Page) -> None:
    """Nothing that axe finds, and nothing wider than the window."""
    assert [entry["id"] for entry in Axe().run(page).response["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("locale", WORDS)
def test_somebody_is_enrolled(browser: Browser, address: str, sqlite: Database, locale: str, width: int) -> None:
    """Each wrong field gets the focus and says what to do; the others keep what was typed, until all are right."""
    sign_in, pseudonym, zone, enrol, bad_zone, bad_age, enrolled = WORDS[locale]
    context = browser.new_context(
        base_url=address, locale=locale, viewport={"width": width, "height": 780}, is_mobile=width < 500
    )
    page = context.new_page()
    page.goto("/signin")
    page.locator("input[name=name]").fill("anna")
    page.locator("input[name=password]").fill(PASSWORD)
    page.get_by_role("button", name=sign_in).click()
    page.goto("/participants")
    sound(page)

    def send() -> None:
        with page.expect_navigation():
            page.get_by_role("button", name=enrol, exact=True).click()

    age = page.locator("input[name='b.age']")
    page.get_by_label(pseudonym).fill("P001")
    page.get_by_label(zone).fill("Europe/Bern")
    page.get_by_label("Site").select_option("Bern")
    age.press_sequentially("39,5")
    for field, said in ((page.get_by_label(zone), bad_zone), (age, bad_age)):
        send()
        expect(field).to_be_focused()
        expect(page.locator("#wrong")).to_contain_text(said)
        expect(page.locator("#wrong")).to_be_in_viewport()
        expect(page.locator("#refused")).to_contain_text(said)
        expect(page.get_by_label(pseudonym)).to_have_value("P001")
        expect(page.get_by_label("Site").locator("option:checked")).to_have_text("Bern")
        expect(age).to_have_value("39,5")
        sound(page)
        page.get_by_label(zone).fill("Europe/Zurich")
    age.fill("61,5")
    send()
    expect(page.get_by_role("status")).to_contain_text(enrolled)
    (row,) = participant_rows(sqlite, limit=10)
    assert (row["timezone"], row["baseline"]) == ("Europe/Zurich", '{"site":"Bern","age":61.5}')
    context.close()


def test_a_field_left_empty_is_held_back_by_the_browser(browser: Browser, address: str) -> None:
    """Nothing is sent while the study lacks what it needs."""
    context = browser.new_context(base_url=address, locale="en-GB")
    page = context.new_page()
    page.goto("/signin")
    page.locator("input[name=name]").fill("anna")
    page.locator("input[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.goto("/participants")
    page.get_by_label("Pseudonym").fill("P001")
    page.get_by_role("button", name="Enrol", exact=True).click()
    expect(page.get_by_label("Site")).to_be_focused()
    assert page.url.endswith("/participants")
    context.close()
