"""Who looked at what can be said afterwards: each read by whom, from where, of which participant."""

from collections.abc import Iterator

import pytest
from desk import desks
from site_over_http import Site, good, problem, site_on

from opportune.service.record.database import Database


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A participant to look at."""
    with site_on(sqlite) as found:
        found.enrol("P001")
        found.enrol("P002")
        yield found


def test_reads_are_noted_with_whom_they_are_about(site: Site) -> None:
    """Over the API and on pages; what a page fetches by itself, and what nobody was let see, is not among them."""
    anna = desks(site, anna="staff")["anna"]
    anna.page("/participants/1")
    anna.page("/today/list")
    anna.request("GET", "/accounts")
    good(site.get("participants/P001", "analyst"))
    problem(site.get("participants/P001/bundle", "analyst"), 403, "forbidden")
    found = good(site.get("access", "admin"))["items"]
    assert [(look["who"], look["role"], look["what"], look["participant"]) for look in reversed(found)] == [
        ("anna", "staff", "/participants/1", "P002"),
        ("analyst one", "analyst", "/api/v1/participants/P001", "P001"),
        ("admin one", "admin", "/api/v1/access", None),
    ]
    assert all(look["address"] for look in found)


def test_admins_search_it_and_nobody_else_sees_it(site: Site) -> None:
    """By who looked and by whom it is about."""
    found = desks(site, ada="admin", anna="staff", bert="staff")
    found["anna"].page("/participants/0")
    found["bert"].page("/participants/1")
    page = found["ada"].page("/access")
    assert "P001" in page
    assert "P002" in page
    page = found["ada"].send("/access", "/access", who="anna", participant="").text
    assert ("P001" in page, "P002" in page) == (True, False)
    page = found["ada"].send("/access", "/access", who="", participant="P002").text
    assert (">anna<" in page, ">bert<" in page) == (False, True)
    for role in ("app", "staff", "analyst"):
        problem(site.get("access", role), 403, "forbidden")
    assert found["anna"].request("GET", "/access").status_code == 403


def test_it_comes_in_pages(site: Site) -> None:
    """The latest first."""
    for _ in range(5):
        good(site.get("study", "analyst"))
    first = good(site.get("access?limit=4", "admin"))
    assert len(first["items"]) == 4
    then = good(site.get(f"access?limit=4&after={first['next']}", "admin"))
    numbers = [look["id"] for look in (*first["items"], *then["items"])]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == len(numbers)
