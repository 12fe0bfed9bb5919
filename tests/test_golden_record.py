"""A change of decisions needs a new version of the algorithm: records would no longer verify."""

import json

import pytest

from golden_record import AT_ONCE, FILE, computed, decisions_of, is_kept, released, studies
from opportune.algorithm.version import ALGORITHM
from opportune.live.agent import Agent

CHANGED = (
    "decisions have changed: give ALGORITHM in algorithm/version.py the next number and run tests/golden_record.py, or "
    "find out what has changed them"
)


def test_decisions_are_those_of_this_version_of_the_algorithm() -> None:
    """Thousands of decisions of every kind, as a service makes them."""
    known = json.loads(FILE.read_text(encoding="utf-8"))
    assert known["algorithm"] == ALGORITHM, "run tests/golden_record.py for the new version of the algorithm"
    found = computed()
    assert list(found) == list(known["studies"])
    assert sum(len(parts) for parts in found.values()) * AT_ONCE >= 5_000
    for name, parts in found.items():
        pinned = known["studies"][name]
        assert [exact for exact, _ in parts] == [exact for exact, _ in pinned], f"{name}: {CHANGED}"
        assert [spent for _, spent in parts] == pytest.approx([spent for _, spent in pinned], abs=1e-6), name


def test_the_file_has_the_decisions_of_the_latest_release() -> None:
    """It cannot be written anew with other decisions under the same number, by the script or by hand."""
    known = json.loads(FILE.read_text(encoding="utf-8"))
    latest = released()
    if latest is not None:
        assert is_kept(latest, known["studies"]), CHANGED
    (name, parts), *_ = known["studies"].items()
    other = {**known["studies"], name: [["0" * 16, parts[0][1]], *parts[1:]]}
    assert is_kept(known, known["studies"] | {"a new one": []})
    assert not is_kept(known, other), "the control: one other decision"
    assert is_kept({**known, "algorithm": ALGORITHM - 1}, other)


def test_one_other_decision_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a single coin that falls otherwise changes what is pinned."""
    text = studies()["naive"]
    before = decisions_of(text, rehearsal=True)
    propose = Agent.propose_at

    def meddled(agent: Agent, step: object, **named: object) -> object:
        if agent.step == 40:
            named["coin"] = 0.999999
        return propose(agent, step, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Agent, "propose_at", meddled)
    after = decisions_of(text, rehearsal=True)
    assert len(before) > 100
    assert before != after
