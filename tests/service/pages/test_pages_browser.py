"""The staff's pages in a real browser, through a real server and database: a day's work."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from course import answer_of
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect
from servers import Parent, free_port, parent
from site_over_http import SENSED
from study_text import study_text

from browser import open_browser
from opportune.service.accounts.keys import add_key
from opportune.service.accounts.people import add_person
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.participants import Enrol
from opportune.service.commands.rewards import Reward
from opportune.service.commands.safety import ReportAdverse
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.server import launch
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify

pytestmark = pytest.mark.browser
PASSWORD = "correct horse battery"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 780}
PEOPLE = {"anna": "staff", "bert": "staff", "cora": "analyst", "ada": "admin"}
NAMES = [f"P{number:03d}" for number in range(1, 7)]


class Trial:
    """A study that runs on a server of its own: whom the rule nudges, it nudges always."""

    def __init__(self, database: Database, address: str, *, rehearsal: bool = False) -> None:
        self.database, self.address = database, address
        text = study_text(policy="always", planned=20)
        text = text.replace("[serve]\n", '[serve]\nsecond_factor = "nobody"\n')  # test_on_record.py has them
        launch(database, StudyInForce.from_text(text), rehearsal=rehearsal)
        for name, role in PEOPLE.items():
            add_person(database, name, role, PASSWORD)
        self._keys = {role: add_key(database, role, role) for role in ("app", "staff")}
        self._numbers = itertools.count()

    def post(self, path: str, body: Any, role: str = "app") -> dict[str, Any]:
        """What an app sends."""
        headers = {"Authorization": f"Bearer {self._keys[role]}", "Idempotency-Key": f"k{next(self._numbers)}"}
        found = httpx.post(f"{self.address}/api/v1/{path}", json=body, headers=headers)
        assert found.status_code < 300, found.text
        answer: dict[str, Any] = found.json()
        return answer

    def begin(self) -> None:
        """Participants with some history, all of whom are to be called."""
        writer, now = Writer(self.database), clock.now()
        writer.write([Enrol(who="s", received=now, participant=name, timezone="America/New_York") for name in NAMES])
        for step in range(7):
            sensed = SENSED if step == 6 else {**SENSED, "stress": step % 2, "sleep": "good"}
            asked = [Propose(who="a", received=now, participant=name, given={"sensed": sensed}) for name in NAMES]
            made = [answer_of(reply)["decision"] for reply in writer.write(asked)]
            if step < 6:
                told = {"mood": "good"}
                writer.write([Answer(who="s", received=now, decision=d, answered=True, reported=told) for d in made])
                writer.write([Reward(who="a", received=now, decision=d, reward=0.1 * step) for d in made])

    def fell(self, name: str) -> None:
        """An adverse event, which stands above the list."""
        fell: dict[str, Any] = {
            "text": "Fell on the stairs.",
            "severity": "moderate",
            "serious": False,
            "began": "today",
        }
        Writer(self.database).do(ReportAdverse(who="s", received=clock.now(), participant=name, **fell))

    def call_again(self, name: str) -> None:
        """The participant opens the app, and is to be called again at the next decision."""
        self.post(f"decisions/{self.open_decision(name)}/answer", {"answered": False, "opened": True})
        self.post(f"participants/{name}/decisions", {"sensed": SENSED})

    def open_decision(self, name: str) -> str:
        """The decision about which a participant is to be called."""
        with self.database.reading.connect() as connection:
            query = tables.participants.select().where(tables.participants.c.name == name)
            return str(connection.execute(query).mappings().one()["open_decision"])


@pytest.fixture(scope="module")
def servers() -> Iterator[Parent]:
    """Starts servers."""
    with parent() as found:
        yield found


@pytest.fixture
def trial(sqlite: Database, servers: Parent, request: pytest.FixtureRequest) -> Iterator[Trial]:
    """A running study, or a rehearsal if a test asks for one."""
    port = free_port()
    found = Trial(sqlite, f"http://127.0.0.1:{port}", rehearsal=getattr(request, "param", False))
    found.begin()
    pid = servers.start(sqlite.url, port)
    yield found
    servers.kill(pid)
    assert verify(sqlite).findings == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium."""
    with open_browser() as found:
        yield found


Open = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser, trial: Trial) -> Iterator[Open]:
    """Opens a browser window at which someone is signed in; whatever the console complains of fails the test."""
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    def open_page(name: str, *, expected: str = "", **settings: Any) -> Page:
        context = browser.new_context(base_url=trial.address, **{"viewport": DESKTOP, "locale": "en-GB", **settings})
        contexts.append(context)
        context.set_default_timeout(15_000)
        page = context.new_page()

        def heard(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"} and not (expected and expected in message.text):
                wrong.append(message.text)

        page.on("console", heard)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto("/")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def violations(page: Page) -> list[str]:
    """What axe finds wrong with a page."""
    found = Axe().run(page)
    return [
        f"{page.url}: {entry['id']}: {entry['nodes'][0]['html'][:200]}" for entry in found.response["violations"]
    ]  # fmt: skip


def card(page: Page, name: str) -> Any:
    """A participant's entry on the list."""
    return page.locator(".call").filter(has=page.get_by_role("link", name=name, exact=True))


def test_a_days_work(opened: Open, trial: Trial) -> None:
    """Sign in, call, report, not reached, undo, enrol, correct, withdraw; all of it on record, and it verifies."""
    page = opened("anna")
    expect(page.get_by_role("heading", name="To call: 6")).to_be_visible()
    expect(card(page, "P001")).to_contain_text("In this study calls follow a plan, whatever the phone measures.")
    card(page, "P001").get_by_role("button", name="I will call").click()
    card(page, "P001").get_by_label("Rather low").check()
    card(page, "P001").get_by_label("Note").fill("Sleeps badly. <script>alert(1)</script>")
    card(page, "P001").get_by_role("button", name="Reached", exact=True).click()
    expect(page.get_by_role("heading", name="Tell P001")).to_be_visible()
    expect(page.locator(".readout")).not_to_be_empty()
    expect(page.get_by_role("heading", name="To call: 5")).to_be_visible()

    card(page, "P002").get_by_role("button", name="I will call").click()
    card(page, "P002").get_by_role("button", name="Not reached, try again").click()
    expect(card(page, "P002")).to_contain_text("tried 1 time")
    page.locator("#said").get_by_role("button", name="Undo").click()
    expect(card(page, "P002")).not_to_contain_text("tried")

    card(page, "P002").get_by_role("button", name="Declined").click()
    expect(page.get_by_role("heading", name="To call: 4")).to_be_visible()
    page.locator(".done").get_by_role("button", name="Undo P002").click()
    expect(page.get_by_role("heading", name="To call: 5")).to_be_visible()

    page.get_by_role("link", name="Participants").click()
    page.get_by_label("Pseudonym").fill("P100")
    page.get_by_role("button", name="Enrol").click()
    expect(page.get_by_role("status")).to_contain_text("Enrolled.")
    page.get_by_role("link", name="Participants").first.click()
    page.get_by_label("Search").fill("p001")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="P001").click()
    expect(page.locator("svg.chart")).to_be_visible()
    expect(page.get_by_role("cell", name="<script>alert(1)</script>")).to_be_visible()
    page.locator("details.decision").nth(1).locator("summary").first.click()
    inside = page.locator("details.decision").nth(1)
    inside.get_by_label("Corrected result").fill("0.9")
    inside.get_by_label("Reason").fill("read wrongly")
    inside.get_by_role("button", name="Correct").click()
    expect(page.get_by_role("status")).to_contain_text("The result is on record.")
    expect(page.locator("details.decision").nth(1)).to_contain_text("0.9 points (corrected)")
    page.get_by_role("link", name="Withdraw").click()
    page.get_by_label("Reason").fill("moved away")
    page.get_by_label("I know").check()
    page.get_by_role("button", name="Withdraw").click()
    expect(page.get_by_role("status")).to_contain_text("Withdrawn.")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    analyst = opened("cora")
    analyst.get_by_role("link", name="Record").click()
    with analyst.expect_download() as download:
        analyst.get_by_role("link", name="decisions.csv").click()
    text = download.value.path().read_text(encoding="utf-8-sig")
    assert text.startswith("participant,")
    assert text.count("\n") == 1 + 7 * len(NAMES)
    analyst.get_by_role("button", name="Verify the record").click()
    expect(analyst.get_by_role("status")).to_contain_text("The record is intact")


def test_two_browsers_at_one_list(opened: Open, trial: Trial) -> None:
    """What one takes, the other sees without doing anything, and does not lose what is being typed."""
    anna, bert = opened("anna"), opened("bert")
    card(anna, "P001").get_by_role("button", name="I will call").click()
    expect(card(anna, "P001").get_by_label("Note")).to_be_visible()
    expect(card(bert, "P001")).to_contain_text("anna is calling.")
    expect(card(bert, "P001").get_by_role("button", name="I will call")).to_have_count(0)
    card(anna, "P001").get_by_label("Note").fill("half a sen")
    card(bert, "P002").get_by_role("button", name="I will call").click()
    expect(card(anna, "P002")).to_contain_text("bert is calling.")
    expect(card(anna, "P001").get_by_label("Note")).to_have_value("half a sen")
    expect(card(anna, "P001").get_by_label("Note")).to_be_focused()
    trial.post(f"decisions/{trial.open_decision('P001')}/answer", {"answered": False, "opened": True})
    expect(card(anna, "P001")).to_contain_text("no longer needed")
    expect(card(anna, "P001").get_by_label("Note")).to_have_value("half a sen")
    expect(bert.locator(".done")).to_contain_text("opened the app, so no call was needed")


def test_both_click_at_once(opened: Open, trial: Trial) -> None:
    """Two people take the same entry at the same moment, without scripts: one gets it, the other is told."""
    pages = [opened(name, java_script_enabled=False, expected="409") for name in ("anna", "bert")]
    for page in pages:
        expect(card(page, "P003")).to_be_visible()
    for page in pages:
        card(page, "P003").get_by_role("button", name="I will call").click()
    expect(card(pages[0], "P003").get_by_label("Note")).to_be_visible()
    expect(pages[1].get_by_role("alert")).to_contain_text("Someone else has taken this call.")


def test_a_double_click_counts_once(opened: Open, trial: Trial) -> None:
    """Not reached, clicked twice: one try."""
    page = opened("anna")
    card(page, "P001").get_by_role("button", name="I will call").click()
    card(page, "P001").get_by_role("button", name="Not reached, try again").dblclick()
    expect(card(page, "P001")).to_contain_text("tried 1 time,")
    with trial.database.reading.connect() as connection:
        kinds = list(connection.execute(tables.events.select()).mappings())
    assert sum(row["kind"] == "tried" for row in kinds) == 1


@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")])
def test_every_page_is_accessible(opened: Open, trial: Trial, viewport: Any, scheme: str) -> None:
    """Nothing that axe finds on any page; nothing is wider than the window, and all of it can be read at 200%."""
    found: list[str] = []
    trial.fell("P002")
    for name, paths in {
        "anna": (
            "/today", "/participants", "/participants/0", "/participants/0/withdrawn", "/participants/0/adverse",
            "/participants/0/paused", "/participants/0/completed", "/participants/0/calls", "/participants/0/correct",
            "/participants/0/phones", "/week", "/study", "/record", "/settings",
        ),
        "ada": ("/accounts", "/access", "/record", "/checklist", "/study"),
    }.items():  # fmt: skip
        page = opened(name, viewport=viewport, color_scheme=scheme)
        if name == "anna":
            card(page, "P001").get_by_role("button", name="I will call").click()
            expect(card(page, "P001").get_by_label("Note")).to_be_visible()
        for path in paths:
            page.goto(path)
            found += violations(page)
            for zoom in (1, 2):
                page.set_viewport_size({"width": viewport["width"] // zoom, "height": viewport["height"]})
                wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                if viewport["width"] // zoom >= 320 and wide > 0:
                    found.append(f"{path} is {wide} wider than the window at {zoom}")
            page.set_viewport_size(viewport)
        page.get_by_role("button", name="Sign out").click()
        found += violations(page)
    assert found == []


@pytest.mark.parametrize("trial", [True], ids=["rehearsal"], indirect=True)
def test_a_rehearsal_says_so_accessibly(opened: Open, trial: Trial) -> None:
    """The line that says so stands in a landmark of its own."""
    page = opened("anna")
    expect(page.get_by_role("complementary", name="Rehearsal")).to_contain_text("these participants are simulated")
    assert violations(page) == []


def test_something_would_be_found(opened: Open, trial: Trial) -> None:
    """The control: a page with a field that has no name, and one with a script that must not run."""
    page = opened("anna", expected="Content Security Policy")
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.evaluate("const s = document.createElement('script'); s.textContent = '1'; document.body.append(s)")
    assert any("Content Security Policy" in text for text in heard)
    page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    assert any("label" in text for text in violations(page))


def test_with_the_keyboard_alone(opened: Open) -> None:
    """Skip to the content, take the first call, answer the question, send: by Tab, arrows, Space and Enter."""
    page = opened("anna")
    page.goto("/today")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")

    def tab_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            text = page.evaluate("document.activeElement.innerText || document.activeElement.name || ''")
            if str(text).startswith(name):
                return
        raise AssertionError(f"{name} cannot be reached")

    tab_to("I will call")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Note")).to_be_visible()
    tab_to("q.mood")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    tab_to("note")
    page.keyboard.type("by keyboard")
    tab_to("Reached")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Tell P001")).to_be_visible()


def test_the_list_on_paper(opened: Open) -> None:
    """Printed: the date, names, reasons, until when, boxes for answers and outcomes; no buttons, no minutes left."""
    page = opened("anna")
    page.emulate_media(media="print")
    expect(card(page, "P001")).to_contain_text("In this study calls follow a plan")
    expect(page.get_by_role("button", name="I will call").first).to_be_hidden()
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    expect(page.get_by_text(", printed at ")).to_be_visible()
    expect(card(page, "P001").locator(".left strong")).to_be_hidden()
    expect(card(page, "P001").locator(".left")).to_contain_text("until")
    assert card(page, "P001").locator(".box:visible").count() == 2 + 5  # a question with two answers, five outcomes
    page.emulate_media(media="screen")
    expect(page.locator(".box").first).to_be_hidden()


TOLD = """
window.told = [];
window.Notification = class { constructor(title) { window.told.push(title); } close() {} };
window.Notification.permission = "granted";
"""


def until_told(page: Page, count: int) -> None:
    """Wait until so many notifications were shown; the page's policy lets no text be run as a condition."""
    for _ in range(150):
        if len(page.evaluate("window.told")) >= count:
            return
        page.wait_for_timeout(100)
    raise AssertionError(page.evaluate("window.told"))


def test_a_call_is_told_while_the_tab_is_in_the_background(opened: Open, trial: Trial) -> None:
    """The title and the icon count; a notification comes for what is new, unless the page is being looked at."""
    page = opened("anna")
    page.context.add_init_script(TOLD)
    page.goto("/study")
    expect(page).to_have_title("(6) Study · Opportune")
    assert page.locator('link[rel="icon"]').get_attribute("href") == "/icon/6"
    trial.post(f"decisions/{trial.open_decision('P001')}/answer", {"answered": False, "opened": True})
    expect(page).to_have_title("(5) Study · Opportune")
    trial.call_again("P002")
    trial.post("participants/P001/decisions", {"sensed": SENSED})
    expect(page).to_have_title("(6) Study · Opportune")
    assert page.evaluate("window.told") == []  # the control: it is being looked at
    other = page.context.new_page()
    page.context.new_cdp_session(page).send("Emulation.setFocusEmulationEnabled", {"enabled": False})
    other.goto("about:blank")
    other.bring_to_front()
    page.wait_for_function("!document.hasFocus()")
    trial.post(f"decisions/{trial.open_decision('P001')}/answer", {"answered": False, "opened": True})
    expect(page).to_have_title("(5) Study · Opportune")
    trial.post("participants/P001/decisions", {"sensed": SENSED})
    expect(page).to_have_title("(6) Study · Opportune")
    assert page.evaluate("window.told") == ["Calls wait: 6"]
    trial.post("participants/P001/decisions", {"sensed": SENSED})  # a new call in place of one: there are still 6
    until_told(page, 2)
    trial.fell("P002")
    until_told(page, 3)
    assert page.evaluate("window.told") == ["Calls wait: 6", "Calls wait: 6", "Urgent: open the page Today"]
    found = page.request.get("/icon/6")
    assert found.headers["content-type"].startswith("image/svg+xml")
    assert ">6</text>" in found.text()


def test_a_session_ends_while_typing(opened: Open, trial: Trial) -> None:
    """A notice over the full width, buttons that cannot be pressed, the text kept; signed in again, it is sent."""
    page = opened("anna", expected="401")
    card(page, "P001").get_by_role("button", name="I will call").click()
    card(page, "P001").get_by_label("Note").fill("half a sen")
    with trial.database.writing.begin() as connection:
        connection.execute(tables.sessions.delete())
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.locator("#ended")).to_be_visible()
    box = page.locator("#ended").bounding_box()
    assert box is not None
    assert box["width"] == DESKTOP["width"]
    expect(card(page, "P001").get_by_role("button", name="Reached", exact=True)).to_be_disabled()
    expect(card(page, "P001").get_by_label("Note")).to_have_value("half a sen")
    assert violations(page) == []
    again = page.context.new_page()
    again.goto("/signin")
    again.get_by_label("Name").fill("anna")
    again.get_by_label("Password").fill(PASSWORD)
    again.get_by_role("button", name="Sign in").click()
    expect(again.get_by_role("navigation", name="Pages")).to_be_visible()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.locator("#ended")).to_be_hidden()
    expect(card(page, "P001").get_by_label("Note")).to_have_value("half a sen")
    card(page, "P001").get_by_role("button", name="Reached", exact=True).click()
    expect(page.get_by_role("heading", name="Tell P001")).to_be_visible()


def test_a_person_keeps_the_session_and_a_script_does_not(opened: Open, trial: Trial) -> None:
    """Soon after a key was pressed the session goes on for another hour; an open page alone changes nothing."""
    page = opened("anna")
    page.clock.install()
    page.goto("/today")

    def last_used(minutes: int) -> int:
        """When the session was used last, after it was said to be so many minutes ago."""
        ago = clock.now() - minutes * clock.MINUTE
        with trial.database.writing.begin() as connection:
            connection.execute(tables.sessions.update().values(used=ago))
        page.clock.fast_forward(31_000)
        page.wait_for_timeout(1_000)
        with trial.database.reading.connect() as connection:
            used = int(connection.execute(tables.sessions.select()).mappings().one()["used"])
        return (clock.now() - used) // clock.MINUTE

    assert last_used(40) >= 40
    page.keyboard.press("Shift")
    assert last_used(40) == 0


def test_what_must_be_seen_to_stands_first(opened: Open, trial: Trial) -> None:
    """An adverse event reported by one appears above the list of the other, who says what was done."""
    anna, bert = opened("anna"), opened("bert")
    expect(anna.get_by_text("Also here: bert")).to_be_visible()
    anna.goto("/participants/0/adverse")
    anna.get_by_label("What happened").fill("Fell on the stairs.")
    anna.get_by_label("When it began").fill("this morning")
    anna.get_by_label("Severity").select_option("moderate")
    anna.get_by_role("button", name="Report the adverse event").click()
    expect(anna.get_by_role("status")).to_contain_text("The adverse event is on record")
    expect(bert.get_by_role("heading", name="Urgent: 1")).to_be_visible()
    expect(bert).to_have_title("(7) Today · Opportune")
    bert.get_by_label("What was done").fill("Told the doctor.")
    bert.get_by_role("button", name="I have dealt with it").click()
    expect(bert.get_by_text("Fell on the stairs.")).to_have_count(0)


def test_with_one_hand_on_a_phone(opened: Open) -> None:
    """The pages are chosen at the bottom, and every button that is pressed in a call is large and wide."""
    page = opened("anna", viewport=PHONE, has_touch=True, is_mobile=True)
    nav = page.get_by_role("navigation", name="Pages").bounding_box()
    assert nav is not None
    assert nav["y"] + nav["height"] == PHONE["height"]
    card(page, "P001").get_by_role("button", name="I will call").tap()
    for button in card(page, "P001").locator(".outcomes .buttons button").all():
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["width"] > 0.7 * PHONE["width"]


def test_no_page_is_cut_off_on_a_phone(opened: Open) -> None:
    """All five of a coordinator are there without scrolling, in the language with the longest words."""
    page = opened("ada", viewport=PHONE, is_mobile=True)
    page.goto("/settings")
    page.get_by_label("Language").select_option("fr")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="Enregistrement")).to_be_visible()
    links = page.locator(".top nav a")
    assert links.count() == 5
    for link in links.all():
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]


def test_a_session_that_has_ended(opened: Open, trial: Trial) -> None:
    """A form sent then stays as it is, and says so; after signing in elsewhere the same button sends it."""
    page = opened("anna", expected="401")
    page.goto("/participants/0/adverse")
    page.get_by_label("What happened").fill("Fell on the stairs.")
    page.get_by_label("When it began").fill("today")
    page.get_by_label("Severity").select_option("mild")
    with trial.database.writing.begin() as connection:
        connection.execute(tables.sessions.delete())
    report = page.get_by_role("button", name="Report the adverse event")
    report.click()
    expect(page.get_by_role("alert")).to_contain_text("You are signed out. What you typed is still here.")
    expect(page.get_by_label("What happened")).to_have_value("Fell on the stairs.")
    expect(report).to_be_disabled()
    again = page.context.new_page()
    again.goto("/signin")
    again.get_by_label("Name").fill("anna")
    again.get_by_label("Password").fill(PASSWORD)
    again.get_by_role("button", name="Sign in").click()
    expect(again.get_by_role("navigation", name="Pages")).to_be_visible()
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    report.click()
    expect(page.get_by_role("status")).to_contain_text("The adverse event is on record")


def test_german_and_the_empty_list(opened: Open, trial: Trial) -> None:
    """Nobody to call is said kindly, in the reader's language."""
    page = opened("anna")
    page.goto("/settings")
    page.get_by_label("Language").select_option("de")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("Gespeichert.")
    waiting = [trial.open_decision(name) for name in NAMES]
    page.goto("/today")
    for decision in waiting:
        trial.post(f"decisions/{decision}/answer", {"answered": True, "reported": {"mood": "low"}}, "staff")
    expect(page.get_by_text("Gerade muss niemand angerufen werden.")).to_be_visible()
