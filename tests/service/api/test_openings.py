"""The app is opened between decision points: answered at once, counted at the next one that is not offline."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from site_over_http import Site, good, problem, site_on
from study_text import study_text

from opportune.service.record.database import Database
from opportune.service.record.queries import event_rows
from opportune.service.verify.check import verify


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    with site_on(sqlite) as found:
        found.enrol()
        yield found


def opened(site: Site, **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = good(site.post("participants/P001/openings", body), 201)
    return found


def nudged(site: Site) -> dict[str, Any]:
    """A decision that waits for an answer."""
    return next(made for _ in range(200) if (made := site.decide())["status"] == "nudge")


def test_an_opening_counts_at_the_next_decision_point_that_is_not_offline(site: Site, sqlite: Database) -> None:
    """With what was told, once; what a phone showed offline stands, and a retry gets the first answer."""
    taken = opened(site, reported={"mood": "low"})
    assert (taken["counts"], taken["decision"], taken["escalations"]) == ("next", None, [])
    assert site.decide(available=False, reason="driving")["outcome"] == "none"
    assert not site.decide(shown="walk")["revealed"]
    made = site.decide()
    assert (made["outcome"], made["revealed"], made["nudge"]) == ("opened", True, False)
    assert good(site.get(f"decisions/{made['decision']}"))["reported"] == {"mood": "low"}
    assert site.decide()["outcome"] != "opened"
    one, two = (
        site.post("participants/P001/openings", {"reported": {"mood": "good"}}, key="tap-1").content for _ in range(2)
    )
    assert one == two
    made = site.decide(reported={"mood": "low"})
    assert made["outcome"] == "opened"
    assert good(site.get(f"decisions/{made['decision']}"))["reported"] == {"mood": "low"}, "told anew"
    assert verify(sqlite).findings == []


def test_an_opening_before_the_nudge_is_made_settles_it(site: Site, sqlite: Database) -> None:
    """Nobody need call any more; the advice is for this moment, and the next decision does not count as opened."""
    made = nudged(site)
    assert [call["decision"] for call in good(site.get("calls"))["items"]] == [made["decision"]]
    taken = opened(site, reported={"mood": "low"})
    assert taken["counts"] == "now"
    assert (taken["decision"]["decision"], taken["decision"]["outcome"]) == (made["decision"], "opened")
    assert taken["decision"]["revealed"]
    assert good(site.get("calls"))["items"] == []
    assert site.decide()["outcome"] != "opened"
    assert verify(sqlite).findings == []


def test_an_opening_that_is_told_later_counts_from_then(site: Site) -> None:
    """One from before the nudge was decided does not settle it; times to come and before enrolment are refused."""
    before = dt.datetime.now(dt.UTC).isoformat()
    made = nudged(site)
    assert opened(site, at=before)["counts"] == "next"
    assert good(site.get(f"decisions/{made['decision']}"))["status"] == "nudge"
    for wrong in ("2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"):
        problem(site.post("participants/P001/openings", {"at": wrong}), 422, "invalid")


@pytest.mark.parametrize("reported", [{"mood": "grumpy"}, {"stress": 3}, {"weather": "fine"}])
def test_what_cannot_be_is_refused_and_nothing_is_stored(
    site: Site, sqlite: Database, reported: dict[str, Any]
) -> None:
    """At once, whether a nudge is open or not."""
    for _ in range(2):
        before = len(event_rows(sqlite, limit=10_000))
        problem(site.post("participants/P001/openings", {"reported": reported}), 422, "invalid")
        assert len(event_rows(sqlite, limit=10_000)) == before
        nudged(site)


def test_who_may_say_so(site: Site) -> None:
    """The participant's phone, and the app's server; nobody for someone who has left."""
    token = good(site.post("participants/P001/tokens", None, "staff"), 201)["token"]
    site.keys["phone"] = token
    good(site.post("participants/P001/openings", {}, "phone"), 201)
    problem(site.post("participants/P002/openings", {}, "phone"), 404, "not_found")
    problem(site.post("participants/P001/openings", {}, "staff"), 403, "forbidden")
    good(site.request("PATCH", "/api/v1/participants/P001", "staff", {"status": "withdrawn"}))
    problem(site.post("participants/P001/openings", {}), 409, "not_active")


def test_what_must_be_done_at_once_is_answered_and_on_record(sqlite: Database) -> None:
    """The study file says which values escalate; whoever told one is answered so while a nudge is open, and else."""
    line = 'question = "How is your mood?"'
    text = study_text().replace(line, f'{line}\nescalate = {{ low = "Ask for the doctor." }}')
    due = [{"variable": "mood", "value": "low", "text": "Ask for the doctor."}]
    with site_on(sqlite, text=text) as site:
        site.enrol()
        assert opened(site, reported={"mood": "low"})["escalations"] == due
        assert opened(site, reported={"mood": "good"})["escalations"] == []
        nudged(site)
        taken = opened(site, reported={"mood": "low"})
        assert (taken["counts"], taken["escalations"]) == ("now", due)
    answers = [msgspec.json.decode(row["body"])["answer"] for row in event_rows(sqlite, limit=1000)]
    assert sum(answer.get("escalations") == due for answer in answers) == 2, "each time"
    assert verify(sqlite).findings == []
