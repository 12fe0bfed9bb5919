"""The study's texts and times for apps, and bundles with dates."""

import datetime as dt
import itertools
from typing import Any

import pytest
from site_over_http import Site, good, site_on
from study_text import study_text

from opportune.errors import InputError
from opportune.service.api.app import ORIGINS, create_app
from opportune.service.commands.administration import Amend
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.service import Service
from opportune.service.state import clock

SCHEDULED = """
[study]
name = "dated"
horizon = 60
actions = ["walk", "rest"]
language = "de"

[variables.hour]
schedule = "time of day"
names = ["morning", "evening"]
level_labels = ["morgens", "abends"]

[variables.steps]
range = [0, 20]
distribution = { kind = "normal", mean = 7, sd = 3 }

[variables.pain]
range = [0, 10]
visibility = "reported"
question = "Wie stark sind die Schmerzen?"

[variables.mood]
levels = ["good", "low"]
visibility = "reported"
answers = ["Gut", "Schlecht"]

[contexts]
known = false

[reward]
formula = "hour + action + action:steps + pain + mood"
noise_sd = 1.0
unit = "Minuten"
bounds = [0, 200]
value_range = [-5, 5]
theta_bound = 4

[[policies]]
kind = "always"

[actions.walk]
label = "Spazieren gehen"
description = "Zehn Minuten genügen."

[participants]
planned = 5

[schedule]
times = ["08:00", "18:30"]
timezone = "Europe/Berlin"

[nudge]
name = "Anruf"
plural = "Anrufe"

[serve]
policy = "always"
fallback = "walk"
second_factor = "nobody"
"""


@pytest.fixture
def content(sqlite: Database) -> Any:
    with site_on(sqlite, text=SCHEDULED) as site:
        yield good(site.get("study/content", "app"))


def test_an_app_needs_nothing_but_the_content_to_show_and_to_ask(content: Any) -> None:
    """Labels, questions with their answers, times, the language, what a nudge is called, what rewards count."""
    assert (content["study"], content["language"], content["languages"]) == ("dated", "de", ["de"])
    assert (content["times"], content["timezone"], content["horizon"]) == (["08:00", "18:30"], "Europe/Berlin", 60)
    assert content["actions"] == [
        {"action": "walk", "label": "Spazieren gehen", "description": "Zehn Minuten genügen."},
        {"action": "rest", "label": "Rest", "description": None},
    ]
    hour, steps, *_ = content["variables"]
    assert (hour["visibility"], hour["knows"]) == ("public", True)
    assert hour["levels"] == [
        {"value": "morning", "label": "morgens"}, {"value": "evening", "label": "abends"},
    ]  # fmt: skip
    assert (steps["levels"], steps["low"], steps["high"], steps["knows"]) == ([], 0.0, 20.0, False)
    pain, mood = content["questions"]
    assert (pain["text"], len(pain["answers"]), pain["low"]) == ("Wie stark sind die Schmerzen?", 11, None)
    assert mood["answers"] == [{"value": "good", "label": "Gut"}, {"value": "low", "label": "Schlecht"}]
    assert content["nudge"] == {"name": "Anruf", "plural": "Anrufe", "by": "staff", "answer_minutes": 120.0}
    assert content["reward"] == {"unit": "Minuten", "low": 0.0, "high": 200.0, "wait_hours": 72.0}


def test_content_is_fetched_again_only_when_it_may_have_changed(sqlite: Database) -> None:
    """The same ETag until the study is amended; what is known is answered with 304 and nothing else."""
    with site_on(sqlite) as site:
        first = site.get("study/content", "app")
        tag = first.headers["etag"]
        assert first.json()["version"] == tag.strip('"')

        def again(known: str) -> Any:
            headers = {**site.headers("app"), "If-None-Match": known}
            return site.client.get("/api/v1/study/content", headers=headers)

        for known in (tag, f'"other", W/{tag}', "*"):
            assert (again(known).status_code, again(known).content) == (304, b""), known
        assert again('"other"').json() == first.json()
        text = study_text().replace('question = "How is your mood?"', 'question = "And your mood?"')
        Writer(sqlite).do(Amend(who="ada", received=clock.now(), file=text, source="x.toml", reason="clearer"))
        found = again(tag)
        assert (found.status_code, found.json()["questions"][0]["text"]) == (200, "And your mood?")
        assert found.headers["etag"] != tag


def test_a_bundle_says_which_advice_stands_from_when_until_when(sqlite: Database) -> None:
    """By the participant's own clock, with its offset; each point ends where the next begins."""
    with site_on(sqlite, text=SCHEDULED) as site:
        site.enrol(timezone="America/New_York")
        bundle = good(site.get("participants/P001/bundle", "app"))
        assert (bundle["now"], bundle["timezone"], len(bundle["points"])) == (None, "America/New_York", 60)
        for point, following in itertools.pairwise(bundle["points"]):
            at = dt.datetime.fromisoformat(point["at"])
            assert at.strftime("%H:%M") == ("08:00", "18:30")[(point["step"] - 1) % 2]
            assert point["values"] == {"hour": ("morning", "evening")[(point["step"] - 1) % 2]}
            assert point["until"] == following["at"]
            assert at.utcoffset() == at.astimezone(clock.zone("America/New_York")).utcoffset()
        assert bundle["until"] == bundle["points"][-1]["until"]
        assert bundle["content"] == good(site.get("study/content", "app"))["version"]


def test_the_advice_that_stands_is_in_the_bundle(sqlite: Database) -> None:
    """That of the latest decision point, as long as the next has not come."""
    with site_on(sqlite, text=SCHEDULED.replace('["08:00", "18:30"]', '["00:00", "00:01"]')) as site:
        site.enrol()
        made = good(site.post("participants/P001/decisions", {"sensed": {"steps": 4.0}}), 201)
        bundle = good(site.get("participants/P001/bundle", "app"))
        assert bundle["now"]["action"] == made["action"]
        assert bundle["now"]["step"] == made["step"] == bundle["after_step"]
        assert bundle["now"]["until"] == bundle["points"][0]["at"]


def test_a_bundle_by_strata_is_dated_too(sqlite: Database) -> None:
    """Where public variables are not known beforehand it says when, and what for each of their values."""
    with site_on(sqlite, times=True) as site:
        site.enrol()
        bundle = good(site.get("participants/P001/bundle", "app"))
        assert {point["action"] for point in bundle["points"]} == {None}
        assert all(point["until"] == after["at"] for point, after in itertools.pairwise(bundle["points"]))
        assert {stratum["values"]["time_of_day"] for stratum in bundle["strata"]} == {"morning", "evening"}


def happening(site: Site) -> list[str]:
    return [item["kind"] for item in good(site.get("participants/P001/events?after=1", "app"))["items"]]


def test_amendments_and_the_end_are_told_to_every_app(sqlite: Database) -> None:
    """They are about nobody in particular."""
    with site_on(sqlite) as site:
        site.enrol()
        text = study_text().replace('question = "How is your mood?"', 'question = "And your mood?"')
        Writer(sqlite).do(Amend(who="ada", received=clock.now(), file=text, source="x.toml", reason="clearer"))
        assert happening(site) == ["content"]


def test_pages_of_other_origins_call_only_if_they_are_named(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser is told so for those in OPPORTUNE_APP_ORIGINS and for nobody else; what is no origin is refused."""
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,idempotency-key"}
    path = "/api/v1/participants/P001/openings"

    def allowed(site: Site, origin: str) -> str | None:
        found = site.client.options(path, headers={**asked, "Origin": origin})
        told: str | None = found.headers.get("access-control-allow-origin")
        return told

    monkeypatch.setenv(ORIGINS, "https://app.example.org, http://localhost:5173")
    with site_on(sqlite) as site:
        assert allowed(site, "https://app.example.org") == "https://app.example.org"
        for other in ("https://app.example.org.evil.example", "https://example.org", "null"):
            assert allowed(site, other) is None, other
        found = site.client.get("/api/v1/study", headers={**site.headers("app"), "Origin": "http://localhost:5173"})
        assert found.headers["access-control-allow-origin"] == "http://localhost:5173"
        assert "access-control-allow-credentials" not in found.headers
    monkeypatch.delenv(ORIGINS)
    assert create_app(Service(sqlite)).cors_config is None, "nobody, unless somebody is named"
    monkeypatch.setenv(ORIGINS, "*")
    with pytest.raises(InputError, match="expected an origin"):
        create_app(Service(sqlite))
