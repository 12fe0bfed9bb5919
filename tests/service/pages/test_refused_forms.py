"""Forms that are refused: shown again, with the reason in the reader's language and with everything that was typed."""

import datetime as dt
import html
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from desk import Desk, desks, went
from site_over_http import Site, good, site_on
from study_text import study_text
from test_languages import english, in_language

from opportune.service.record.database import Database

CARDIAC = files("opportune.study.examples").joinpath("cardiac-calls.toml").read_text(encoding="utf-8")


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A study whose rule nudges whenever it may, with somebody who was called and has a result."""
    with site_on(sqlite, policy="always") as found:
        found.enrol("P001", timezone="Europe/Berlin")
        made = found.decide("P001")["decision"]
        good(found.post(f"decisions/{made}/answer", {"answered": True, "reported": {"mood": "low"}}, "staff"))
        good(found.post(f"decisions/{made}/reward", {"reward": 0.25}))
        found.decide("P001")
        yield found


def first(site: Site) -> str:
    """The id of the decision that has a result."""
    found: str = good(site.get("participants/P001/decisions"))["items"][0]["decision"]
    return found


def refusal(page: str) -> str:
    """What the notice of a refused form says."""
    (found,) = re.findall(r'<div class="said bad" role="alert" id="refused".*?</div>', page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", " ", found))


def marked(page: str) -> str:
    """The name of the field that is marked as wrong."""
    (found,) = re.findall(r'<[^>]*name="([^"]*)"[^>]*aria-invalid="true"', page)
    return str(found)


FORMS: dict[str, tuple[str, str, dict[str, str], str, str]] = {
    "pseudonym": (
        "/participants", "/participants/enrol", {"participant": "Anna Maria", "timezone": "Asia/Tokyo"},
        "participant", "Verwenden Sie nur Buchstaben",
    ),
    "name in use": (
        "/participants", "/participants/enrol", {"participant": "P001", "timezone": "Asia/Tokyo"},
        "participant", "Diesen Namen gibt es schon.",
    ),
    "time zone": (
        "/participants", "/participants/enrol", {"participant": "P2", "timezone": "Moon"},
        "timezone", "Geben Sie den Namen einer Zeitzone ein",
    ),
    "no reason": ("/participants/0/paused", "/participants/0/status", {"reason": " "}, "reason", "Füllen Sie"),
    "not confirmed": (
        "/participants/0/withdrawn", "/participants/0/status", {"reason": "weggezogen"}, "sure", "Häkchen",
    ),
    "severity": (
        "/participants/0/adverse", "/participants/0/adverse",
        {"text": "Gestürzt.", "began": "gestern", "serious": "yes", "severity": ""}, "severity", "Füllen Sie",
    ),
    "note too long": ("/participants/0", "/participants/0/note", {"text": "a" * 2001}, "text", "Er hat 2001 Zeichen"),
    "no number": (
        "/participants/0", "/participants/0/reward", {"decision": "FIRST", "reward": "1.200", "reason": "vertippt"},
        "reward", "Geben Sie eine Zahl ein, zum Beispiel 12,5,",
    ),
    "no reason for a correction": (
        "/participants/0", "/participants/0/reward", {"decision": "FIRST", "reward": "0,75", "reason": ""},
        "reason", "Geben Sie den Grund der Berichtigung an.",
    ),
    "date": (
        "/participants/0/correct", "/participants/0/correct",
        {"what": "timezone", "timezone": "Asia/Tokyo", "from_date": "2020-01-01", "reason": "Reise"},
        "from_date", "Wählen Sie ein Datum vom",
    ),
    "outcome": (
        "/participants/0/correct?decision=FIRST", "/participants/0/correct",
        {"what": "outcome", "outcome": "perhaps", "reason": "vertippt"}, "outcome", "Wählen Sie eine der Antworten.",
    ),
    "own time zone": (
        "/settings", "/settings", {"language": "de", "timezone": "Mond"}, "timezone", "Namen einer Zeitzone",
    ),
}  # fmt: skip


def filled(site: Site, case: str) -> tuple[str, str, dict[str, str], str, str]:
    """A case, with the id of the decision."""
    where, action, fields, wrong, said = FORMS[case]
    fields = {name: value.replace("FIRST", first(site)) for name, value in fields.items()}
    return where.replace("FIRST", first(site)), action, fields, wrong, said


@pytest.mark.parametrize("case", FORMS)
def test_a_refused_form_is_shown_again(site: Site, case: str) -> None:
    """In view, in German: what is wrong with which field. What was typed is still there; nothing is on record."""
    where, action, fields, wrong, said = filled(site, case)
    anna = desks(site, anna="staff")["anna"]
    in_language(anna, "de")
    before = good(site.get("study"))["events"]
    answer = anna.send(where, action, **fields)
    assert answer.status_code in {409, 422}, answer.text
    assert good(site.get("study"))["events"] == before
    page = answer.text
    assert said in refusal(page)
    assert marked(page) == wrong
    assert said in html.unescape(page.partition('id="wrong"')[2].partition("</p>")[0])
    assert "<h1>" in page
    for name, value in fields.items():
        kept = re.findall(rf'name="{name}"[^>]*value="{re.escape(html.escape(value.strip()))}"', page)
        chosen = re.findall(rf'name="{name}".*?<option value="{re.escape(value)}" selected', page, flags=re.DOTALL)
        text = f">{html.escape(value)}</textarea>" in page
        assert kept or chosen or text or not value.strip() or value == "perhaps", name
    if "serious" in fields:
        assert re.search(r'name="serious" value="yes" checked', page)


@pytest.mark.parametrize("language", ["de", "fr"])
def test_no_english_in_refusals(site: Site, language: str) -> None:
    """Every sentence that a refused form shows is in the reader's language."""
    anna = desks(site, anna="staff")["anna"]
    in_language(anna, language)
    for where, action, fields, _, _ in (filled(site, case) for case in FORMS):
        page = anna.send(where, action, **{**fields, **({"language": language} if action == "/settings" else {})}).text
        found = english(refusal(page).join(["<body>", "</body>"]), language)
        assert found == set(), refusal(page)


def test_a_refused_form_is_sent_again(site: Site) -> None:
    """Corrected where it stands, the form counts."""
    anna = desks(site, anna="staff")["anna"]
    fields = {"decision": first(site), "reward": "1,200", "reason": "typo"}
    refused = anna.send("/participants/0", "/participants/0/reward", **fields)
    again = anna.form(refused.text, "/participants/0/reward", **{**fields, "reward": "0.75"})
    went(anna.request("POST", "/participants/0/reward", again))
    assert good(site.get(f"decisions/{first(site)}"))["reward"] == 0.75


def test_what_was_said_in_a_call_is_kept(site: Site) -> None:
    """Also when a colleague has taken the entry since; when the call has left the list, the note is shown."""
    found = desks(site, anna="staff", bert="staff")
    anna, bert = found["anna"], found["bert"]
    (decision,) = re.findall(r'data-call="(d\d+)"', anna.page("/today").partition("done-title")[0])
    went(anna.send("/today", "/today/take", decision=decision))
    said = {"decision": decision, "q.mood": "7", "note": "Sleeps <badly>."}
    form = anna.form(anna.page("/today"), "/today/outcome", **said)
    went(anna.send("/today", "/today/release", decision=decision))
    went(bert.send("/today", "/today/take", decision=decision))
    page = anna.request("POST", "/today/outcome", {**form, "outcome": "reached"}).text
    assert "Choose one of the answers." in refusal(page)
    assert ">Sleeps &lt;badly&gt;.</textarea>" in page
    assert f'data-call="{decision}" data-kept' in page
    went(bert.send("/today", "/today/release", decision=decision))
    good(site.post(f"decisions/{decision}/answer", {"answered": False, "opened": True}))
    gone = anna.request("POST", "/today/outcome", {**form, "q.mood": "1", "outcome": "declined"})
    assert gone.status_code == 409
    assert "This call is no longer needed" in refusal(gone.text)
    assert "Your note was not recorded: Sleeps &lt;badly&gt;." in gone.text


def test_what_has_no_translation_is_shown_as_it_is(site: Site) -> None:
    """In view, with a lead in the reader's language."""
    ada = desks(site, ada="admin")["ada"]
    in_language(ada, "de")
    page = ada.send("/accounts", "/accounts", what="revoke_person", name="ada").text
    assert "Der Dienst meldet auf Englisch:" in refusal(page)
    assert "you cannot revoke yourself" in refusal(page)
    assert "<details" not in page.partition('id="refused"')[2].partition("</div>")[0]
    taken = ada.send("/accounts", "/accounts", what="add_person", name="ada", role="staff").text
    assert "Dieser Name ist nicht möglich." in refusal(taken)
    assert marked(taken) == "name"


def test_the_baseline_is_checked_where_it_is_asked_for(sqlite: Database) -> None:
    """Out of range, not chosen, and nothing at all: each says what to do, and keeps the others."""
    with site_on(sqlite, text=CARDIAC) as site:
        anna = desks(site, anna="staff")["anna"]
        in_language(anna, "fr")
        person = {"participant": "P001", "b.site": "1", "b.age": "61,5"}
        for wrong, value, said in (
            ("b.age", "39", "Saisissez un nombre de 40 à 85."),
            ("b.age", "soixante", "Saisissez un nombre, par exemple 12,5,"),
            ("b.site", "", "Remplissez ce champ."),
        ):
            page = anna.send("/participants", "/participants/enrol", **{**person, wrong: value}).text
            assert said in refusal(page)
            assert marked(page) == wrong
            assert 'name="participant" value="P001"' in page
        went(anna.send("/participants", "/participants/enrol", **person))


def checked(page: str, name: str) -> str:
    """The value of the button that is pressed."""
    (found,) = re.findall(rf'name="{name}" value="([^"]*)" checked', page)
    return str(found)


def test_corrections_show_what_is_on_record(site: Site) -> None:
    """The result, the reported values, the outcome and the time zone stand in their fields, as last corrected."""
    anna = desks(site, anna="staff")["anna"]
    assert "On record: 0.25 points" in anna.page("/participants/0")
    assert 'name="reward" value="0.25"' in anna.page("/participants/0")
    path = f"/participants/0/correct?decision={first(site)}"
    page = anna.page(path)
    assert "<strong>Mood: Rather low</strong>" in page
    assert checked(page, "q.mood") == "1"
    assert "<strong>call answered</strong>" in page
    assert '<option value="answered" selected>' in page
    for what in ({"what": "outcome", "outcome": "unanswered"}, {"what": "reported", "q.mood": "0"}):
        went(send_correction(anna, path, **what))
    page = anna.page(path)
    assert checked(page, "q.mood") == "0"
    assert '<option value="unanswered" selected>' in page
    assert "Corrected later: call not answered; Mood: " in anna.page("/participants/0")
    in_language(anna, "de")
    assert 'name="reward" value="0,25"' in anna.page("/participants/0")


def send_correction(desk: Desk, path: str, **fields: str) -> Any:
    """Send the form of a correction."""
    page = desk.page(path)
    (form,) = [text for text in re.findall(r"<form.*?</form>", page, flags=re.DOTALL) if f'"{fields["what"]}"' in text]
    action = path.partition("?")[0]
    return desk.request("POST", action, desk.form(form, action, reason="typo", **fields))


def test_a_planned_time_zone_stands_in_the_form(site: Site) -> None:
    """The present zone is shown and the planned change is filled in, so that sending it again changes nothing."""
    anna = desks(site, anna="staff")["anna"]
    path, date = "/participants/0/correct", (dt.datetime.now(dt.UTC).date() + dt.timedelta(days=9)).isoformat()
    assert 'name="timezone" value="Europe/Berlin"' in anna.page(path)
    went(send_correction(anna, path, what="timezone", timezone="Asia/Tokyo", from_date=date))
    page = anna.page(path)
    assert "<strong>Europe/Berlin</strong>" in page
    assert 'name="timezone" value="Asia/Tokyo"' in page
    assert f'name="from_date" value="{date}"' in page
    before = good(site.get("study"))["events"]
    went(send_correction(anna, path, what="timezone", timezone="Asia/Tokyo", from_date=date))
    assert good(site.get("study"))["events"] == before


def test_a_withdrawal_is_shown_before_it_is_taken_back(site: Site) -> None:
    """With the reason that was given."""
    anna = desks(site, anna="staff")["anna"]
    went(anna.send("/participants/0/withdrawn", "/participants/0/status", reason="moved", sure="yes"))
    assert "<strong>withdrawn (moved)</strong>" in anna.page("/participants/0/correct")
    went(send_correction(anna, "/participants/0/correct", what="status"))
    assert good(site.get("participants/P001"))["status"] == "active"


def test_only_what_was_answered_can_be_corrected(sqlite: Database) -> None:
    """Of two questions the one that the app reported; a decision without a call or a report has no such form."""
    levels = '[variables.sleep]\nlevels = ["good", "poor"]\nvisibility = '
    text = study_text(policy="always").replace(f'{levels}"sensed"', f'{levels}"reported"')
    with site_on(sqlite, text=text) as site:
        site.enrol("P001")
        sensed = {"time_of_day": "morning", "stress": 3}
        made = good(site.post("participants/P001/decisions", {"sensed": sensed}), 201)["decision"]
        good(site.post(f"decisions/{made}/answer", {"answered": True, "reported": {"mood": "low"}}, "staff"))
        anna = desks(site, anna="staff")["anna"]
        page = anna.page(f"/participants/0/correct?decision={made}")
        assert "q.mood" in page
        assert "q.sleep" not in page
        went(send_correction(anna, f"/participants/0/correct?decision={made}", what="reported", **{"q.mood": "0"}))
        assert good(site.get(f"decisions/{made}"))["reported"] == {"mood": "good"}
