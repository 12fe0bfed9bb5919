"""Enrolment on the pages: what must be known of somebody is asked for, and whoever is blinded cannot tell the arm."""

from collections.abc import Iterator
from importlib.resources import files

import pytest
from desk import desks, went
from site_over_http import Site, good, site_on

from opportune.service.record.database import Database

CARDIAC = files("opportune.study.examples").joinpath("cardiac-calls.toml").read_text(encoding="utf-8")


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A study that needs a baseline and has an arm without calls."""
    with site_on(sqlite, text=CARDIAC) as found:
        yield found


def test_the_form_asks_for_the_baseline(site: Site) -> None:
    """Levels are chosen and numbers typed; whoever lacks one is not enrolled."""
    anna = desks(site, anna="staff")["anna"]
    form = anna.page("/participants")
    assert '<option value="0">Berlin</option><option value="1">Bern</option>' in form
    assert "(40 – 85)" in form
    person = {"participant": "P001", "b.site": "1", "b.age": "61,5"}
    went(anna.send("/participants", "/participants/enrol", **person))
    assert good(site.get("participants/P001"))["baseline"] == {"site": "Bern", "age": 61.5}
    for wrong in ({"b.site": ""}, {"b.site": "7"}, {"b.age": "39"}, {"b.age": "1,200"}):
        found = anna.send("/participants", "/participants/enrol", **{**person, "participant": "P002", **wrong})
        assert found.status_code == 422, found.text


def test_the_arm_cannot_be_read_off_the_calls_that_are_left(site: Site) -> None:
    """Blinded staff see no calls left, with arms; others see that there are no calls in an arm."""
    for number in range(6):
        site.enrol(f"P{number}", baseline={"site": "Bern", "age": 60})
    found = desks(site, anna="staff", ada="admin")
    arms = {one["participant"]: one["arm"] for one in good(site.get("participants", "analyst"))["items"]}
    control = [name for name, arm in arms.items() if arm == "control"]
    assert len(control) == 2
    assert '<th scope="col">left</th>' not in found["anna"].page("/participants")
    assert '<th scope="col">left</th>' in found["ada"].page("/participants")
    for number in range(6):
        assert "Calls left" not in found["anna"].page(f"/participants/{number}")
        told = "no calls in this arm" in found["ada"].page(f"/participants/{number}")
        assert told == (f"P{number}" in control)
