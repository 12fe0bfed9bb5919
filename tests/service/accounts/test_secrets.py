"""Every role against every secret: whatever a key, a token or a session may open, none of it shows what it must not."""

import json
from collections.abc import Iterator

import pytest
from desk import PASSWORD, desks
from site_over_http import SENSED, Site, good, pages_of, problem, site_on
from sqlalchemy import select
from study_text import study_text

from opportune.service.accounts.keys import ROLES
from opportune.service.record import secret, tables
from opportune.service.record.database import Database
from service_databases import HASHER

NAMES = {"Maria Huber": "staff", "Jonas Weber": "admin", "cora": "analyst"}
ANSWERS = {"{number:int}": "0", "{change:str}": "paused", "{participant:str}": "P001", "{path:str}": "openapi.json"}
FILES = ("decisions.csv", "participants.csv", "events.csv", "rewards.csv", "calls.csv", "dictionary.json")


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """Two participants, one of whom has told something that only they and staff know."""
    with site_on(sqlite, policy="always") as found:
        for name in ("P001", "P002"):
            found.enrol(name)
            issued = good(found.post(f"participants/{name}/tokens", None, "app"), 201)
            found.keys |= {name: issued["token"], f"refresh {name}": issued["refresh"]}
        made = found.decide("P002", reported={"mood": "low"})
        found.keys["decision"] = made["decision"]
        good(found.post("participants/P002/notes", {"text": "only about the other one"}, "staff"), 201)
        yield found


def everything(site: Site, role: str) -> dict[str, str]:
    """All that a key or token can read, by address; writes are answered with what is read here, too."""
    seen = {}
    for route in site.client.app.routes:
        for method, (handler, _) in getattr(route, "route_handler_map", {}).items():
            if method != "GET" or not handler.include_in_schema:
                continue
            paths = [route.path.replace("{decision:str}", site.keys["decision"])]
            for place, value in ANSWERS.items():
                paths = [path.replace(place, value) for path in paths]
            if "{name:str}" in paths[0]:
                paths = [paths[0].replace("{name:str}", file) for file in FILES]
            for path in [each for before in paths for each in (before, before.replace("P001", "P002"))]:
                found = site.request("GET", path, role)
                if found.status_code == 200:
                    seen[path] = found.text
    return seen


def pages(site: Site, name: str, role: str) -> dict[str, str]:
    """All pages that someone can open."""
    desk = desks(site, **{name: role})[name]
    seen = {}
    for method, path in pages_of(site.client.app):
        if method == "GET" and path != "/today/changes" and not path.startswith("/static"):
            address = path.replace("{number:int}", "1").replace("{change:str}", "paused")
            for file in FILES if "{name:str}" in path else ("",):
                found = desk.request("GET", address.replace("{name:str}", file))
                if found.status_code == 200:
                    seen[address + file] = found.text
    return seen


def hidden(site: Site) -> dict[str, list[str]]:
    """What nobody may see, as it might be written."""
    with site.service.database.reading.connect() as connection:
        kept = secret.stored(connection)
        assert kept is not None
        hashes = [*connection.execute(select(tables.keys.c.hash)).scalars()]
        hashes += connection.execute(select(tables.people.c.hash)).scalars()
        totp = [text for text in connection.execute(select(tables.people.c.totp)).scalars() if text]
        tokens = list(connection.execute(select(tables.tokens.c.hash)).scalars())
    seed = [kept.seed.hex(), kept.salt.hex(), str(int.from_bytes(kept.seed)), str(list(kept.seed))]
    return {
        "seed": seed, "hashes": hashes, "second factors": totp, "tokens": tokens,
        "keys": [value for name, value in site.keys.items() if name != "decision"], "passwords": [PASSWORD],
    }  # fmt: skip


@pytest.mark.parametrize("role", [*ROLES, "P001"])
def test_no_key_shows_a_secret(site: Site, role: str) -> None:
    """Every address, every role: no seed, no stream, no hash, no key, no password."""
    seen, secrets = everything(site, role), hidden(site)
    assert len(seen) > 2
    for what, texts in secrets.items():
        for path, text in seen.items():
            assert not [each for each in texts if each in text], (role, what, path)
    for path, text in seen.items():
        if "schema" not in path:
            assert '"stream"' not in text, path


@pytest.mark.parametrize(("name", "role"), NAMES.items())
def test_no_page_shows_a_secret(site: Site, name: str, role: str) -> None:
    """Every page of every role."""
    seen, secrets = pages(site, name, role), hidden(site)
    assert len(seen) > 5
    for what, texts in secrets.items():
        for path, text in seen.items():
            assert not [each for each in texts if each in text], (role, what, path)


def test_a_phone_sees_nothing_of_anybody_else(site: Site) -> None:
    """Not the other's pseudonym, decision, note or report, wherever it looks; the other's own phone does, a control."""
    site.post("participants/P001/decisions", {"sensed": SENSED}, "P001")
    mine, theirs = everything(site, "P001"), everything(site, "P002")
    others = ("P002", site.keys["decision"], "only about the other one")
    assert not [(path, text) for path, text in mine.items() if any(other in text for other in others)]
    assert any("P002" in text for text in theirs.values())


def test_analysts_see_no_names(site: Site) -> None:
    """Of people, wherever they look: over the API and on pages."""
    for name, role in NAMES.items():
        desks(site, **{name: role})
    found = desks(site, **{"another analyst": "analyst"})["another analyst"]
    seen = everything(site, "analyst") | {path: found.page(path) for path in ("/study", "/record", "/participants/1")}
    named = [name for name in NAMES if name != "cora"]
    assert not [path for path, text in seen.items() if any(name in text for name in named)]
    record = json.dumps(good(site.get("events?limit=1000", "admin")))
    assert "Jonas Weber" in record, "the control: the record knows"


ARMS = """
[arms]
calls = { share = 1, label = "Calls" }
control = { share = 1, policy = "never", label = "App alone" }
block = 4
"""


def test_staff_and_phones_see_no_arms(sqlite: Database) -> None:
    """With the arms of others and the size of blocks, the arm of who comes next could be foreseen; analysts may."""
    with site_on(sqlite, text=study_text(extra=ARMS, policy="always")) as site:
        answers = [site.enrol(f"P00{number}") for number in range(4)]
        assert {answer["arm"] for answer in answers} == {None}, "whoever enrols people is not told"
        for number in range(4):
            name = f"P00{number}"
            site.keys[name] = good(site.post(f"participants/{name}/tokens", None, "app"), 201)["token"]
            made = good(site.post(f"participants/{name}/decisions", {"sensed": SENSED}, name), 201)
            site.keys["decision"] = made["decision"]
        told = ('"arm":"calls"', '"arm":"control"', '"closed":"arm"', '"ineligible":"arm"')
        for role, there in (("staff", False), ("P001", False), ("analyst", True), ("admin", True)):
            seen = "".join(text for path, text in everything(site, role).items() if "schema" not in path)
            assert any(word in seen.replace('": "', '":"') for word in told) == there, role
        shown = {role: "".join(pages(site, f"another {role}", role).values()) for role in ("staff", "admin")}
        assert ("App alone" in shown["staff"] or "control" in shown["staff"]) is False
        assert "control" in shown["admin"], "the control"
        staff = desks(site, eva="staff")["eva"]
        found = staff.send("/record", "/record", text='"closed":"arm"').text
        assert "<tbody>" not in found


def test_whoever_sees_arms_does_not_enrol(sqlite: Database) -> None:
    """Neither an admin nor unblinded staff; a key of an app sees no arms."""
    text = study_text(extra=ARMS).replace("[serve]\n", '[serve]\nunblinded = ["eva"]\n')
    with site_on(sqlite, text=text) as site:
        site.enrol("P001")
        for role in ("app", "staff"):
            assert good(site.get("participants/P001", role))["arm"] is None, role
        assert good(site.get("participants/P001", "admin"))["arm"] is not None, "the control"
        problem(site.post("participants", {"participant": "P002"}, "admin"), 403, "forbidden")
        people = desks(site, eva="staff", ada="admin", sam="staff")
        for name, status in (("eva", 403), ("ada", 403), ("sam", 303)):
            page = people[name].page("/participants")
            assert ('action="/participants/enrol"' in page) == (status == 303), name
            fields = people[name].form(page, "/participants", participant="P002", timezone="", once=name * 8)
            found = people[name].request("POST", "/participants/enrol", fields)
            assert found.status_code == status, (name, found.text[-500:])
        assert good(site.get("study", "staff"))["enrolled"] == 2


def test_a_phones_bundle_is_not_for_staff(site: Site) -> None:
    """Where recommendations are drawn it holds draws to come, which a phone needs while it is offline."""
    assert site.get("participants/P001/bundle", "P001").status_code == 200
    for role in ("staff", "analyst", "admin"):
        assert site.get("participants/P001/bundle", role).status_code == 403


def test_what_is_spent_does_not_tell_staff_a_probability(site: Site) -> None:
    """Two looks at the budget, before and after a decision, differ by its probability; to staff by whole calls."""
    before = good(site.get("study", "analyst"))["spent"]
    site.decide("P001")
    assert good(site.get("study", "analyst"))["spent"] > before, "the control"
    assert good(site.get("study", "staff"))["spent"] is None
    assert good(site.get("participants/P001", "staff"))["budget_left"] is None
    changed = good(site.request("PATCH", "/api/v1/participants/P001", "staff", {"status": "paused"}))
    assert changed["budget_left"] is None


def test_staff_see_no_probabilities(site: Site) -> None:
    """Blind: neither probabilities nor coins, wherever they look; analysts do, the control."""
    for role, there in (("staff", False), ("analyst", True)):
        seen = everything(site, role)
        assert any('"coin":0.' in text.replace(" ", "") for text in seen.values()) == there, role


def test_passwords_take_work_to_guess() -> None:
    """Outside tests, a password is hashed with 64 MiB and three passes at least."""
    assert HASHER.memory_cost >= 64 * 1024
    assert HASHER.time_cost >= 3
    assert HASHER.type.name == "ID"
