"""Who guesses is slowed: wrong keys, failed sign-ins, by address; valid keys are not refused for what others do."""

from collections.abc import Iterator

import pytest
from desk import Desk
from site_over_http import Site, good, problem, site_on

from opportune.service.accounts import limits
from opportune.service.accounts.limits import Failures
from opportune.service.problems import Refused
from opportune.service.record.database import Database


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A service."""
    with site_on(sqlite) as found:
        yield found


def test_wrong_keys_are_refused_after_many_and_valid_ones_are_not(site: Site) -> None:
    """429 with problem details, once there were too many; an app at the same address goes on as if nothing were."""
    site.enrol()
    wrong = {"Authorization": "Bearer opp_wrong"}
    for _ in range(limits.KEYS):
        assert site.client.get("/api/v1/study", headers=wrong).status_code == 401
        assert site.client.get("/api/v1/study").status_code == 401, "without a key nobody guesses"
    refused = site.client.get("/api/v1/study", headers=wrong)
    assert f"more than {limits.KEYS} wrong keys" in problem(refused, 429, "too_many")
    assert refused.headers["retry-after"] == "60"
    for _ in range(5):
        site.decide()
        assert good(site.get("study", "analyst"))["status"] == "open"
    assert site.client.get("/api/v1/study", headers=wrong).status_code == 429
    assert site.client.get("/healthz").status_code == 200


def test_requests_with_a_valid_key_are_not_counted(site: Site) -> None:
    """However many, and also those that are refused for other reasons."""
    for _ in range(2 * limits.KEYS):
        assert site.get("participants/nobody", "app").status_code in {403, 404}
    assert site.get("study", "app").status_code == 200


def test_failed_sign_ins_are_refused_after_many(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever names are tried, before any password is hashed; the page says so. Invitations are counted with them."""
    tried = []
    monkeypatch.setattr("opportune.service.accounts.people.sign_in", lambda *given, **where: tried.append(given))
    desks = [Desk(site, f"nobody{i}") for i in range(limits.SIGN_INS + 2)]
    for desk in desks[: limits.SIGN_INS]:
        assert desk.sign_in("wrong password").status_code == 401
    refused = Desk(site, "anna").request("GET", "/invitation?token=none")
    assert refused.status_code == 429
    assert "Too many attempts" in refused.text
    assert desks[-1].sign_in("wrong password").status_code == 429
    assert len(tried) == limits.SIGN_INS
    assert Desk(site, "anna").request("GET", "/signin").status_code == 200, "the page itself is there"


def test_the_schema_knows(site: Site) -> None:
    """Every address with a key documents 429."""
    paths = site.client.get("/schema").json()["paths"]
    for path, methods in paths.items():
        for method, operation in methods.items():
            if "401" in operation["responses"]:
                assert "429" in operation["responses"], (method, path)
    assert sum("429" in o["responses"] for methods in paths.values() for o in methods.values()) > 10


def test_windows_end_and_addresses_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the window everything begins anew; others are not affected; memory is bounded."""
    monkeypatch.setattr(limits, "_MOST_ADDRESSES", 3)
    now = [0.0]
    failures = Failures("tries", 2, 10, now=lambda: now[0])
    for _ in range(2):
        failures.count("a")
    with pytest.raises(Refused, match="more than 2 tries from this address within 10 seconds; expected a pause of"):
        failures.count("a")
    with pytest.raises(Refused):
        failures.check("a")
    failures.count("b")
    failures.check("b")
    now[0] = 10.5
    failures.check("a")
    failures.count("a")
    failures.check("a")
    for name in "cdefg":
        failures.count(name)
    assert len(failures._counted) <= 3
