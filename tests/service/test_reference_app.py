"""The reference app in a real Chromium: a day with it, without a network and back, and beside the nurse's page."""

import datetime as dt
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect
from servers import Parent, free_port, parent
from study_text import study_text

from browser import open_browser
from opportune.rehearsal.participant_app import TYPES, content
from opportune.service.accounts import tokens
from opportune.service.accounts.changes import Actor
from opportune.service.accounts.keys import FRESH_SECONDS, add_key
from opportune.service.commands.decisions import Answer
from opportune.service.commands.participants import Enrol
from opportune.service.problems import Refused
from opportune.service.record import queries, tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.server import launch
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify
from processes import COMMAND, Started, needs_linux

pytestmark = pytest.mark.browser
BY_HAND = Actor("ada", {"from": "here"})
SENSORS = "globalThis.sensors = async () => ({ time_of_day: 'morning', stress: 3, sleep: 'poor' });"
PHONE = {"width": 390, "height": 844}
ZONE = "Europe/Berlin"


@pytest.fixture(scope="module")
def servers() -> Iterator[Parent]:
    with parent("app") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as found:
        yield found


class Trial:
    """A study that nudges whenever it can, on a server that can be killed; a decision point came today at midnight."""

    def __init__(
        self, database: Database, servers: Parent, *, language: str = "en", times: Sequence[str] = ("00:00", "00:01")
    ) -> None:
        text = study_text(times=True, policy="always")
        text = re.sub(r"(?m)^times = .*$", f"times = {json.dumps(list(times))}", text)
        text = text.replace("[study]\n", f'[study]\nlanguage = "{language}"\n')
        text = text.replace('unit = "points"', 'unit = "points"\nbounds = [0, 100]')
        launch(database, StudyInForce.from_text(text))
        self.database, self.servers, self.port = database, servers, free_port()
        self.writer = Writer(database)
        self.writer.do(Enrol(who="s", received=clock.now(), participant="P001", timezone=ZONE))
        self.app = add_key(database, "app", "app")
        self.refresh = tokens.issue(database, "P001", BY_HAND).refresh
        self.address = f"http://127.0.0.1:{self.port}"
        self.pid = servers.start(database.url, self.port)

    def stop(self) -> None:
        """Kill the server."""
        self.servers.kill(self.pid)

    def start(self) -> None:
        """Start it again."""
        self.pid = self.servers.start(self.database.url, self.port)

    def decisions(self) -> list[dict[str, Any]]:
        """What is on record."""
        return [row for row in queries.decision_rows(self.database, "P001", limit=100) if row["reason"] is None]


@pytest.fixture
def trial(sqlite: Database, servers: Parent, request: pytest.FixtureRequest) -> Iterator[Trial]:
    found = Trial(sqlite, servers, language=getattr(request, "param", "en"))
    yield found
    found.stop()
    assert verify(sqlite).findings == []


Open = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Opens the app as a phone would; what the console complains of, but for a network that is away, fails the test."""
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            wrong.append(message.text)

    def open_page(address: str, **settings: Any) -> Page:
        given = {"viewport": PHONE, "locale": "en-GB", "timezone_id": "America/New_York", **settings}
        context = browser.new_context(**given)
        contexts.append(context)
        context.set_default_timeout(20_000)
        context.add_init_script(SENSORS)
        page = context.new_page()
        page.on("console", heard)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def connected(trial: Trial, opened: Open, **settings: Any) -> Page:
    page = opened(f"{trial.address}/app/index.html#{trial.refresh}", **settings)
    until(lambda: page.evaluate("localStorage['study.bundle'] !== undefined"))
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    return page


def until(told: Callable[[], Any], seconds: float = 20.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := told()):
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.1)
    return found


def test_a_day_with_the_app(trial: Trial, opened: Open) -> None:
    """It asks at the decision point, says that a call comes, follows the call, and tells what was answered and done."""
    page = connected(trial, opened)
    assert page.url.endswith("/app/index.html"), "the code does not stay in the address"
    (made,) = until(trial.decisions)
    assert (made["status"], made["participant"]) == ("nudge", "P001")
    expect(page.locator("#call-title")).to_contain_text("Expect a")
    answer = Answer(who="nurse", received=clock.now(), decision=made["id"], answered=True, reported={"mood": "low"})
    headers = {"Authorization": f"Bearer {trial.app}", "Idempotency-Key": "call-1"}
    body = {"answered": answer.answered, "reported": answer.reported}
    assert httpx.post(f"{trial.address}/api/v1/decisions/{made['id']}/answer", json=body, headers=headers).is_success
    expect(page.locator(".chip.new")).to_be_visible()
    expect(page.locator("#call")).to_be_hidden()
    settled = trial.decisions()[0]
    label = trial_label(page, settled["action"])
    expect(page.locator("#advice-title")).to_have_text(label)
    page.locator("#amount").fill("7,5")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#saved")).to_have_text("Saved. Thank you.")
    assert trial.decisions()[0]["reward"] == 7.5
    page.get_by_role("button", name="Rather low").click()
    expect(page.locator("#thanks")).to_contain_text("It counts for your next advice.")


def trial_label(page: Page, action: str) -> str:
    """What the app calls an action."""
    known = json.loads(page.evaluate("localStorage['study.content']"))
    return next(str(each["label"]) for each in known["actions"] if each["action"] == action)


def test_an_opening_settles_a_call_that_waits(trial: Trial, opened: Open) -> None:
    """Who answers in the app need not be called; the advice is for now."""
    page = connected(trial, opened)
    expect(page.locator("#call")).to_be_visible()
    page.get_by_role("button", name="Good", exact=True).click()
    expect(page.locator("#thanks")).to_contain_text("Your advice is for how you feel now.")
    expect(page.locator("#call")).to_be_hidden()
    (made,) = trial.decisions()
    assert (made["outcome"], made["reported"]) == ("opened", '{"mood":"good"}')


def test_without_a_network_and_back(trial: Trial, opened: Open) -> None:
    """It opens, shows what it carries, and keeps what it is told; all of it is on record once the network is back."""
    page = connected(trial, opened)
    until(lambda: page.evaluate("localStorage['study.decision'] !== undefined"))
    advice = page.locator("#advice-title")
    expect(advice).not_to_be_empty()
    shown = advice.inner_text()
    page.context.set_offline(True)
    page.goto(f"{trial.address}/app/")
    expect(page.locator("#link")).to_have_text("Offline")
    expect(advice).to_have_text(shown)
    page.get_by_role("button", name="Rather low").click()
    expect(page.locator("#thanks")).to_contain_text("It is kept on this phone")
    page.reload()
    kept = json.loads(page.evaluate("localStorage['study.outbox']"))
    assert [item["path"] for item in kept] == ["participants/P001/openings"]
    assert queries.count(trial.database, tables.events, tables.events.c.kind == "settled") == 0
    page.context.set_offline(False)
    expect(page.locator("#link")).to_have_text("Up to date")
    (made,) = trial.decisions()
    assert (made["outcome"], made["reported"]) == ("opened", '{"mood":"low"}')
    assert page.evaluate("localStorage['study.outbox']") == "[]"
    page.context.set_offline(True)
    page.get_by_role("button", name="Rather low").click()
    expect(page.locator("#thanks")).to_contain_text("It is kept on this phone")
    page.context.set_offline(False)
    expect(page.locator("#thanks")).to_contain_text("It counts for your next advice")


def in_minutes(minutes: float) -> dt.datetime:
    """A time by the participant's clock."""
    return dt.datetime.now(clock.zone(ZONE)) + dt.timedelta(minutes=minutes)


def test_what_was_shown_offline_is_told_later(sqlite: Database, servers: Parent, opened: Open) -> None:
    """A decision point that comes without a network: what the phone carries is shown, and is on record afterwards."""
    trial = Trial(sqlite, servers, times=[in_minutes(3).strftime("%H:%M")])
    page = connected(trial, opened)
    page.context.set_offline(True)
    page.clock.install(time=in_minutes(4))  # phones may be some minutes ahead
    page.goto(f"{trial.address}/app/index.html")
    expect(page.locator("#chip")).to_have_text("Carried by this phone")
    (told,) = until(lambda: json.loads(page.evaluate("localStorage['study.outbox'] || '[]'")))
    (carried,) = [
        each["action"]
        for each in json.loads(page.evaluate("localStorage['study.bundle']"))["strata"]
        if each["values"] == {"time_of_day": "morning"}
    ]
    assert told["body"]["shown"] == carried
    expect(page.locator("#advice-title")).to_have_text(trial_label(page, carried))
    assert trial.decisions() == []
    page.context.set_offline(False)
    page.clock.run_for(60_000)
    (made,) = until(trial.decisions)
    assert (made["offline"], made["action"], made["nudge"]) == (True, carried, False)
    trial.stop()
    assert verify(sqlite).findings == []


def test_a_server_that_restarts_is_found_again(trial: Trial, opened: Open) -> None:
    """What happened meanwhile is shown; nothing is asked twice."""
    page = connected(trial, opened)
    (made,) = until(trial.decisions)
    trial.stop()
    answered = Answer(who="s", received=clock.now(), decision=made["id"], answered=True, reported={"mood": "low"})
    trial.writer.do(answered)
    trial.start()
    expect(page.locator(".chip.new")).to_be_visible(timeout=60_000)
    assert len(trial.decisions()) == 1


def test_a_phone_that_was_lost_shows_nothing_more(trial: Trial, opened: Open) -> None:
    """After its token is revoked nothing is kept on it; a wrong code connects nothing."""
    page = connected(trial, opened)
    tokens.revoke(trial.database, "P001", BY_HAND)
    page.wait_for_timeout(1_000 * FRESH_SECONDS)  # so long the service remembers a token
    page.evaluate("window.dispatchEvent(new Event('online'))")  # it asks again, as it does every half minute by itself
    expect(page.locator("#connect")).to_be_visible(timeout=60_000)
    assert page.evaluate("Object.keys(localStorage).length") == 0
    page.get_by_label("Your code").fill("opr_forged")
    page.get_by_role("button", name="Connect").click()
    expect(page.locator("#connect-wrong")).to_contain_text("This code is not valid")


@pytest.mark.parametrize("trial", ["en", "de"], indirect=True)
def test_everyone_can_use_it(trial: Trial, opened: Open) -> None:
    """No fault of accessibility in light and dark, at 200%, in English and German; all of it by keyboard."""
    for settings in ({}, {"color_scheme": "dark"}, {"viewport": {"width": 195, "height": 422}}, {"locale": "de-DE"}):
        page = connected(trial, opened, reduced_motion="reduce", **settings)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        wide = page.evaluate("document.scrollingElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, settings
    german = page.evaluate("document.documentElement.lang") == "de"
    assert (page.locator("#leave").inner_text() == "Dieses Telefon trennen") == german
    page.locator("#questions button").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#thanks")).not_to_be_empty()
    connect = opened(f"{trial.address}/app/index.html")
    assert Axe().run(connect).violations_count == 0


@needs_linux
def test_both_pages_of_the_demonstration(tmp_path: Path, opened: Open, browser: Browser) -> None:
    """The nurse answers the call, and the advice changes on the phone beside it."""
    port = free_port()
    with Started(COMMAND, "demo", "--no-browser", "--port", str(port), cwd=tmp_path, TZ=ZONE) as process:

        def addresses() -> list[str]:
            return re.findall(rf"http://127.0.0.1:{port}/(?:signin\?link|app/)\S+", "\n".join(process.said()))

        process.until(lambda: len(addresses()) == 2)
        process.until(lambda: _answers(port))
        signin, phone = addresses()
        (name,) = re.findall(r"the phone of (P\d+),", "\n".join(process.said()))
        page = opened(phone, timezone_id=ZONE)
        expect(page.locator("#call")).to_be_visible()
        before = page.locator("#advice-title").inner_text()
        desk = browser.new_context(timezone_id=ZONE, locale="en-GB").new_page()
        desk.goto(signin)
        card = desk.locator(".call", has=desk.get_by_role("link", name=name))
        card.get_by_role("button", name="I will call").click()
        card.get_by_label("Low").check()
        card.get_by_role("button", name="Reached").first.click()
        expect(page.locator(".chip.new")).to_be_visible()
        after = page.locator("#advice-title").inner_text()
        assert after != before
        expect(desk.locator("main")).to_contain_text(after)
        desk.context.close()
        process.interrupt()
        assert process.ended(within=30) == 0


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_the_app_is_complete_without_a_build() -> None:
    """Whatever the service worker keeps is there, and so is whatever a file refers to; other files are none of it."""
    for name in re.findall(r'"([\w.-]+\.(?:html|css|js|svg|png|webmanifest))"', content("sw.js").decode()):
        assert content(name)
    for name in ("index.html", "app.js"):
        for other in re.findall(r'(?:src|href|from) ?=? ?"(?:\./)?([\w.-]+\.[a-z]+)"', content(name).decode()):
            assert content(other), other
    for name in ("../demo.py", "__init__.py", "nothing.js"):
        with pytest.raises(Refused):
            content(name)
    assert {"html", "js", "webmanifest"} <= set(TYPES)
