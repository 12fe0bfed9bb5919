"""Adverse events, escalations, wrong numbers and no calls any more: shown at once, on record, exported, verified."""

import csv
import io
from collections.abc import Iterator

import pytest
from desk import Desk, desks, went
from site_over_http import Site, good, site_on
from sqlalchemy import insert, update
from study_text import study_text

from opportune.errors import InputError
from opportune.service.commands import calls
from opportune.service.monitoring.alerts import LOOK_EVERY
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify

CONTACT = 'contact_url = "https://clinic.example/people/{participant}"\n'
ESCALATE = 'escalate = { low = "Ask for the doctor on duty." }\n'


@pytest.fixture
def site(database: Database) -> Iterator[Site]:
    """A study in which a low mood must be seen to, and participants are always called."""
    with site_on(database, text=with_safety(study_text(policy="always"))) as found:
        found.enrol()
        yield found
    assert verify(database).findings == []


def with_safety(text: str) -> str:
    """The study file, with where contacts are, and what must be seen to."""
    assert "[serve]\n" in text
    return text.replace("[serve]\n", f"[serve]\n{CONTACT}").replace(
        "[variables.mood]\n", f"[variables.mood]\n{ESCALATE}"
    )


def exported(site: Site) -> list[dict[str, str]]:
    """The export of escalations."""
    return list(csv.DictReader(io.StringIO(site.get("exports/escalations.csv", "analyst").text)))


def reach(site: Site, desk: Desk, mood: str) -> None:
    """Call someone who tells how the mood is."""
    decision = str(site.decide()["decision"])
    went(desk.send("/today", "/today/take", decision=decision))
    went(desk.send("/today", "/today/outcome", decision=decision, outcome="reached", **{"q.mood": mood}))


def test_a_value_that_must_be_seen_to(site: Site) -> None:
    """It stands above the list for everyone until someone says what was done; who did is on record and exported."""
    found = desks(site, anna="staff", bert="staff")
    anna, bert = found["anna"], found["bert"]
    reach(site, anna, "1")
    page = bert.page("/today")
    assert page.index("Ask for the doctor on duty.") < page.index("To call")
    assert "Mood: Rather low" in page
    site.service.alerts.look(clock.now() + LOOK_EVERY)
    assert "A participant needs attention" in bert.page("/study")
    empty = bert.send("/today", "/escalations/acknowledge", note="")
    assert empty.status_code == 422
    went(bert.send("/today", "/escalations/acknowledge", note="Doctor called back."))
    assert "Ask for the doctor on duty." not in anna.page("/today")
    (row,) = exported(site)
    assert (row["kind"], row["variable"], row["note"]) == ("value", "mood", "Doctor called back.")
    assert row["acknowledged_by"].startswith("staff")
    kinds = [item["event"]["kind"] for item in good(site.get("events"))["items"]]
    assert kinds.count("acknowledged") == 1


def test_the_same_value_again_is_one_entry(site: Site) -> None:
    """Told twice, it stands there once, and is seen to once; told again after that, it stands there anew."""
    anna = desks(site, anna="staff")["anna"]
    for _ in range(2):
        reach(site, anna, "1")
    page = anna.page("/today")
    assert page.count("Ask for the doctor on duty.") == 1
    assert "2 times since then" in page
    went(anna.send("/today", "/escalations/acknowledge", note="Seen to."))
    assert "Ask for the doctor on duty." not in anna.page("/today")
    reach(site, anna, "1")
    assert "Ask for the doctor on duty." in anna.page("/today")
    reach(site, anna, "0")
    assert len(exported(site)) == 3


def test_an_adverse_event(site: Site) -> None:
    """Reported by form, it is on record with its severity, and stands above the list until it is acknowledged."""
    anna = desks(site, anna="staff")["anna"]
    given = {"text": "Fell on the stairs.", "severity": "moderate", "serious": "yes", "began": "this morning"}
    wrong = anna.send("/participants/0/adverse", "/participants/0/adverse", **{**given, "severity": "awful"})
    assert wrong.status_code == 422
    went(anna.send("/participants/0/adverse", "/participants/0/adverse", **given))
    page = anna.page("/today")
    reported = "serious; moderate; began: this morning"
    assert f"Adverse event ({reported})" in page
    assert "Fell on the stairs." in page
    assert f"Fell on the stairs. ({reported})" in anna.page("/participants/0")
    *_, last = good(site.get("events"))["items"]
    assert last["event"]["kind"] == "adverse event"
    assert last["event"]["given"]["serious"] is True
    went(anna.send("/today", "/escalations/acknowledge", note="Told the doctor."))
    assert "Fell on the stairs." not in anna.page("/today")


def test_serious_events_stand_first_and_are_reported_of_those_who_left(site: Site) -> None:
    """Whoever has withdrawn has a button for them, too."""
    anna = desks(site, anna="staff")["anna"]
    went(anna.send("/participants/0/withdrawn", "/participants/0/status", reason="Moved.", sure="yes"))
    assert '<a class="button" href="/participants/0/adverse">' in anna.page("/participants/0")
    fell = {"text": "Fell.", "severity": "severe", "serious": "yes", "began": "today", "related": "no"}
    cough = {"text": "Coughs.", "severity": "mild", "began": "today"}
    for given in (fell, cough):
        went(anna.send("/participants/0/adverse", "/participants/0/adverse", **given))
    page = anna.page("/today")
    assert page.index("Fell.") < page.index("Coughs.")
    assert "related to the study: no" in page
    for number in range(2):  # first the serious one
        went(anna.send("/today", "/escalations/acknowledge", note="Told the doctor."))
        assert ("Coughs." in anna.page("/today")) == (number == 0)


def test_no_calls_any_more(site: Site) -> None:
    """An open call ends, none follows, decisions go on and say why; it can be taken back."""
    anna = desks(site, anna="staff")["anna"]
    first = site.decide()
    assert first["nudge"]
    went(anna.send("/participants/0/calls", "/participants/0/calls", reason="too many"))
    assert "Nobody needs a call right now." in anna.page("/today")
    assert "wants no calls" in anna.page("/participants/0")
    second = site.decide()
    assert not second["nudge"]
    rows = list(csv.DictReader(io.StringIO(site.get("exports/decisions.csv", "analyst").text)))
    assert rows[1]["ineligible_reason"] == "opted out"
    went(anna.send("/participants/0/calls", "/participants/0/calls", reason="asked for them"))
    assert site.decide()["nudge"]


def test_reached_the_wrong_person(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is over a minute later; that the number must be checked stands above the list until someone did."""
    anna = desks(site, anna="staff")["anna"]
    decision = str(site.decide()["decision"])
    went(anna.send("/today", "/today/take", decision=decision))
    went(anna.send("/today", "/today/outcome", decision=decision, outcome="wrong person"))
    assert "reached the wrong person" in anna.page("/today")
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + calls.UNDO)
    site.service.look_after()
    assert good(site.get(f"decisions/{decision}"))["outcome"] == "unanswered"
    assert "check the telephone number" in anna.page("/today")


def test_the_pseudonym_leads_to_the_contact(site: Site) -> None:
    """Where telephone numbers are is one click away for staff; analysts are not led there."""
    site.decide()
    found = desks(site, anna="staff", cora="analyst")
    address = 'href="https://clinic.example/people/P001"'
    assert address in found["anna"].page("/today")
    assert address in found["anna"].page("/participants/0")
    assert address not in found["cora"].page("/participants/0")


def test_who_else_is_here_and_for_how_long_a_call_is_taken(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nurses see each other's names, and since when the other has a call; so does the coordinator."""
    found = desks(site, anna="staff", bert="staff", ada="admin")
    anna, bert = found["anna"], found["bert"]
    decision = str(site.decide()["decision"])
    assert "Also here" not in anna.page("/today")
    with site.service.database.writing.begin() as connection:  # as an open page does
        mine = tables.sessions.c.person == "bert"
        connection.execute(update(tables.sessions).where(mine).values(watched=clock.now()))
    assert "Also here: bert" in anna.page("/today")
    went(bert.send("/today", "/today/take", decision=decision))
    assert "bert is calling." in anna.page("/today")
    assert "bert is calling." in found["ada"].page("/today")
    real = clock.now
    monkeypatch.setattr(clock, "now", lambda: real() + 7 * clock.MINUTE)
    page = anna.page("/today")
    assert "bert is calling, for 7 minutes." in page
    assert "Also here" not in page


def test_verify_finds_what_was_made_up(site: Site, database: Database) -> None:
    """The control: an escalation that nothing has raised, or that nobody has seen to on record, is found."""
    reach(site, desks(site, anna="staff")["anna"], "1")
    assert verify(database).findings == []
    table = tables.escalations
    with database.writing.begin() as connection:
        connection.execute(update(table).values(acknowledged=1))
    assert any("acknowledged" in text for text in verify(database).findings)
    with database.writing.begin() as connection:
        connection.execute(update(table).values(acknowledged=None))
        row = {"id": "9.9", "seq": 9, "participant": "P001", "kind": "value", "text": "", "raised": 1}
        connection.execute(insert(table), row)
    assert any("not on record" in text for text in verify(database).findings)
    with database.writing.begin() as connection:
        connection.execute(table.delete().where(table.c.id == "9.9"))


def test_values_that_are_sensed_count_too(site: Site) -> None:
    """What a phone reports without a call is seen to in the same way."""
    site.post("participants/P001/openings", {"reported": {"mood": "low"}})
    assert "Ask for the doctor on duty." in desks(site, anna="staff")["anna"].page("/today")


def test_an_address_of_contacts_names_the_participant() -> None:
    """One without a place for the pseudonym would lead all participants to the same page: it is refused."""
    text = study_text().replace("[serve]\n", '[serve]\ncontact_url = "https://clinic.example/people"\n')
    with pytest.raises(InputError, match=r"contact_url in \[serve\].*expected an address with \{participant\}"):
        StudyInForce.from_text(text)
