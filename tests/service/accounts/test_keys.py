"""Who is let in: keys are asked about once in a while, and one that was revoked is refused soon."""

import time

import pytest
from course import launch
from site_over_http import site_on
from study_text import study_text

from opportune.service.accounts import keys as module
from opportune.service.accounts.keys import Keys, add_key, revoke_key
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer


def test_a_key_is_looked_up_once_in_a_while(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests, one question; a wrong key is asked about, too, and never remembered as good."""
    asked: list[str] = []
    read = Keys._read

    def counted(keys: Keys, key: str, hashed: str) -> module.Caller | None:
        asked.append(hashed)
        return read(keys, key, hashed)

    monkeypatch.setattr(Keys, "_read", counted)
    with site_on(sqlite) as site:
        assert [site.get("study", "app").status_code for _ in range(20)] == [200] * 20
        assert len(asked) <= 2
        wrong = {"Authorization": "Bearer opp_wrong"}
        assert [site.client.get("/api/v1/study", headers=wrong).status_code for _ in range(3)] == [401] * 3


def test_a_revoked_key_is_not_remembered_for_long(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was looked up counts for a moment only."""
    launch(Writer(sqlite), study_text())
    key = add_key(sqlite, "phone", "app")
    keys = Keys(sqlite)
    assert keys.remembered(key) is None, "nobody has asked yet"
    assert keys.find(key) == module.Caller("phone", "app") == keys.remembered(key)
    revoke_key(sqlite, "phone")
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + module.FRESH_SECONDS + 0.1)
    assert keys.remembered(key) is None
    assert keys.find(key) is None
    assert keys.remembered(key) is None
