"""Corrections by staff, with a reason: what was said first stays on record, decisions stay, and the record verifies."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import pytest
from desk import desks, went
from site_over_http import SENSED, Site, good, problem, site_on

from opportune.service.record.database import Database
from opportune.service.verify.check import verify

TOLD = {"mood": "low"}


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A participant whom the rule nudges always."""
    with site_on(sqlite, policy="always", shared=True) as found:
        found.enrol()
        yield found


def answered(site: Site, **body: Any) -> str:
    """A decision whose nudge was answered."""
    made = site.decide()
    good(site.post(f"decisions/{made['decision']}/answer", {"answered": True, "reported": TOLD, **body}))
    return str(made["decision"])


def correct(site: Site, path: str, role: str = "staff", **body: Any) -> Any:
    """A correction, which must be taken."""
    return good(site.post(f"{path}/corrections", {"reason": "heard wrongly", **body}, role))


def rows(site: Site, name: str = "decisions") -> list[dict[str, str]]:
    """An export."""
    return list(csv.DictReader(io.StringIO(site.get(f"exports/{name}.csv", "analyst").text)))


def test_a_reported_value_counts_from_then_on(site: Site, sqlite: Database) -> None:
    """The export has the new value and the first one; a reward that comes after it is learned with the new one."""
    decision = answered(site)
    correct(site, f"decisions/{decision}", reported={"mood": "good"})
    good(site.post(f"decisions/{decision}/reward", {"reward": 0.5}))
    (row,) = rows(site)
    assert (row["mood"], row["reported_first"], row["reported_first_learned"]) == ("good", '{"mood":"low"}', "0")
    assert verify(sqlite).findings == []


def test_the_model_is_as_if_it_had_been_said_at_once(sqlite: Database, folder: Any) -> None:
    """Corrected before anything is learned from it, a value leads to the state that it would have led to itself."""
    states = []
    for number, told in enumerate(("low", "good")):
        database = Database(f"sqlite:///{folder / f'{number}.db'}")
        with site_on(database, policy="always") as site:
            site.enrol()
            made = site.decide()
            path = f"decisions/{made['decision']}"
            good(site.post(f"{path}/answer", {"answered": False}))
            again = site.decide(opened=False)
            told_then = {str(made["step"]): {"mood": told}}
            body = {"answered": True, "reported": {"mood": told}, "earlier": told_then}
            good(site.post(f"decisions/{again['decision']}/answer", body))
            if told == "low":
                correct(site, f"decisions/{again['decision']}", reported={"mood": "good"})
                correct(site, path, reported={"mood": "good"})
            for each in (made, again):
                good(site.post(f"decisions/{each['decision']}/reward", {"reward": 0.5}))
            states.append(
                [{k: v for k, v in site.decide().items() if k not in {"decision", "expires"}} for _ in range(3)]
            )
            assert verify(database).findings == []
        database.close()
    assert states[0] == states[1]


def test_what_was_learned_stays_learned_and_is_marked(site: Site, sqlite: Database) -> None:
    """The reward can still be corrected, by the features that it was learned with."""
    decision = answered(site)
    good(site.post(f"decisions/{decision}/reward", {"reward": 0.5}))
    correct(site, f"decisions/{decision}", reported={"mood": "good"})
    body = {"reward": 0.9, "corrects": True, "reason": "typing error"}
    good(site.post(f"decisions/{decision}/reward", body, "staff"))
    (row,) = rows(site)
    assert (row["mood"], row["reported_first"], row["reported_first_learned"]) == ("good", '{"mood":"low"}', "1")
    site.decide()
    assert verify(sqlite).findings == []


def test_a_value_is_corrected_more_than_once(site: Site, sqlite: Database) -> None:
    """The first one is the first; the same value again changes nothing."""
    decision = answered(site)
    for value in ("good", "low", "good", "good"):
        correct(site, f"decisions/{decision}", reported={"mood": value})
    (row,) = rows(site)
    assert (row["mood"], row["reported_first"]) == ("good", '{"mood":"low"}')
    assert [row["kind"] for row in rows(site, "events")].count("reported values corrected") == 3
    assert verify(sqlite).findings == []


def test_the_outcome_of_a_call(site: Site, sqlite: Database) -> None:
    """The export has both; what followed from the first stays."""
    made = site.decide()
    path = f"decisions/{made['decision']}"
    problem(site.post(f"{path}/corrections", {"outcome": "answered", "reason": "x"}, "staff"), 409, "not_settled")
    good(site.post(f"{path}/answer", {"answered": False}))
    assert correct(site, path, outcome="answered")["outcome"] == "unanswered"
    (row,) = rows(site)
    assert (row["answered"], row["outcome_corrected"]) == ("0", "answered")
    assert verify(sqlite).findings == []


def test_a_time_zone(site: Site, sqlite: Database) -> None:
    """Decisions to come are by the new one; those that were made keep theirs."""
    site.decide()
    before = good(site.get("participants/P001"))["timezone"]
    assert correct(site, "participants/P001", timezone="America/New_York")["timezone"] == "America/New_York"
    problem(site.post("participants/P001/corrections", {"timezone": "Moon", "reason": "x"}, "staff"), 422, "invalid")
    site.decide()
    assert [row["timezone"] for row in rows(site)] == [before, "America/New_York"]
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("status", ["withdrawn", "completed"])
def test_a_withdrawal_in_error(site: Site, sqlite: Database, status: str) -> None:
    """Decisions go on, and the shared budget expects them again; who takes part cannot be reinstated."""
    site.enrol("P002")
    problem(site.post("participants/P001/corrections", {"status": "active", "reason": "x"}, "staff"), 422, "invalid")
    good(site.request("PATCH", "/api/v1/participants/P001", "staff", {"status": status, "reason": "by mistake"}))
    problem(site.post("participants/P001/decisions", {"sensed": SENSED}), 409, "not_active")
    assert correct(site, "participants/P001", status="active")["status"] == "active"
    assert site.decide()["step"] == 1
    site.decide("P002")
    assert verify(sqlite).findings == []


def test_only_staff_correct_and_they_say_why(site: Site) -> None:
    """Nothing without a reason, one thing at a time, and only what was there."""
    decision = answered(site)
    path = f"decisions/{decision}/corrections"
    body = {"reported": {"mood": "good"}, "reason": "heard wrongly"}
    for role in ("app", "analyst", "admin"):
        problem(site.post(path, body, role), 403, "forbidden")
    for wrong in (
        {"reported": {"mood": "good"}}, {**body, "reason": " "}, {**body, "outcome": "answered"}, {"reason": "x"},
        {**body, "reported": {"mood": "merry"}}, {**body, "reported": {"sleep": "good"}}, {**body, "reported": {}},
    ):  # fmt: skip
        assert site.post(path, wrong, "staff").status_code in {400, 422}, wrong
    first = site.post(path, body, "staff", key="once")
    assert site.post(path, body, "staff", key="once").content == first.content


def test_staff_correct_on_pages(site: Site, sqlite: Database) -> None:
    """From the participant's page: what was reported, the outcome, the time zone, and that somebody had left."""
    decision = answered(site)
    anna = desks(site, anna="staff")["anna"]
    path = "/participants/0/correct"
    assert f"{path}?decision={decision}" in anna.page("/participants/0")
    page = anna.page(f"{path}?decision={decision}")
    forms = [anna.form(part, path) for part in page.split("<section>") if 'name="what"' in part]
    assert [form["what"] for form in forms] == ["reported", "outcome"]
    went(anna.request("POST", path, {**forms[0], "q.mood": "0", "reason": "heard wrongly"}))
    went(anna.request("POST", path, {**forms[1], "outcome": "unanswered", "reason": "another person"}))
    page = anna.page(path)
    went(anna.request("POST", path, {**anna.form(page, path), "timezone": "Europe/Rome", "reason": "moved"}))
    good(site.request("PATCH", "/api/v1/participants/P001", "staff", {"status": "withdrawn", "reason": "by mistake"}))
    left = [part for part in anna.page(path).split("<section>") if 'value="status"' in part]
    went(anna.request("POST", path, {**anna.form(left[0], path), "reason": "the wrong one"}))
    (row,) = rows(site)
    assert (row["mood"], row["outcome_corrected"]) == ("good", "unanswered")
    (person,) = rows(site, "participants")
    assert (person["timezone"], person["status"]) == ("Europe/Rome", "active")
    page = anna.page("/participants/0")
    for told in ("heard wrongly", "another person", "moved", "the wrong one", "withdrawal undone"):
        assert told in page, told
    assert anna.request("POST", path, {**forms[0], "what": "reward", "reason": "x"}).status_code == 422
    assert verify(sqlite).findings == []
