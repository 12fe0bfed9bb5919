"""Revealers from outside the package: registered in one line, they run wherever the package's own do."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opportune.core.registry import Registry
from opportune.errors import InputError, StateError
from opportune.recommenders import RECOMMENDERS
from opportune.revealers import REVEALERS, Always
from opportune.worlds import WORLDS

RULE = '''
"""A revealer that a user might write: with the same probability at every so-many-th step, within the budget."""

from dataclasses import dataclass
from typing import Any, ClassVar

from opportune.core.budget import spent_so_far
from opportune.core.compiled import driver_function, inner_function
from opportune.core.protocol import Judged, Moment
from opportune.core.registry import REVEALERS, consult
from opportune.core.views import participant_at
from opportune.revealers.base import Revealer


@inner_function
def weigh(p, moment, judged):
    if moment.step % int(p.rule.settings[0]) != 0:
        return 0.0, 0.0
    return min(p.rule.settings[1], p.rule.amount[0] - spent_so_far(p)), 0.0


@dataclass(frozen=True, kw_only=True)
class NowAndThen(Revealer):
    """Reveal with a given probability at every so-many-th step."""

    every: int
    probability: float
    label: ClassVar[str] = "now and then"
    kind: ClassVar[str] = "now and then"
    consult: ClassVar[Any] = staticmethod(weigh)

    def numbers(self, problem: Any, **about: Any) -> tuple[float, ...]:
        return float(self.every), self.probability


REVEALERS.add(NowAndThen, outside=True)


@driver_function
def ask(handle, kind, step):
    """The rule with this number, asked directly."""
    return consult(kind, participant_at(handle), Moment(step, 0, 0, 0), Judged(0.5, 0.0, 0, 0))[0]
'''

EVERYWHERE = """
import json
import numpy as np
import opportune as op
from rule import NowAndThen

world = op.synthetic_worlds(1, seed=1)[0]
policy = op.Policy(revealer=NowAndThen(every=3, probability=0.75), budget=2)
data = op.simulate(world, [op.naive_ucb(2), policy], horizon=12, replicates=2, seed=1, progress=False)
one = data.isel(policy=1, world=0, replicate=1)
agent = op.Agent(world.informed_problem(), policy, horizon=12, seed=1, stream=1)
live = []
for t in range(12):
    decision = agent.decide(int(one["context"][t]))
    agent.learn(float(one["reward"][t]))
    live.append([decision.probability, decision.nudged, int(decision.action)])
assert op.Policy.from_dict(policy.describe()) == policy
simulated = [[float(one["probability"][t]), bool(one["nudged"][t]), int(one["action"][t])] for t in range(12)]
print(json.dumps([simulated, live, data["policy"].values.tolist()]))
"""

ASKED = """
import json
import opportune as op
import rule

policy = op.Policy(revealer=rule.NowAndThen(every=1, probability=0.75), budget=2)
agent = op.Agent.__new__(op.Agent)
agent._build(op.synthetic_worlds(1, seed=1)[0].problem, policy, horizon=12, seed=1, stream=1, participants=1)
answer = rule.ask(agent._handle, rule.NowAndThen.number, 1)
print(json.dumps([answer, sum(rule.ask.stats.cache_hits.values())]))
"""


def run(script: str, folder: Path) -> Any:
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths, "OPPORTUNE_CACHE_DIR": str(folder / "cache")},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_revealer_from_outside_runs_everywhere(tmp_path: Path) -> None:
    """It runs in simulate, beside the package's own, and live, with the same decisions; its policies are saved."""
    (tmp_path / "rule.py").write_text(RULE, encoding="utf-8")
    simulated, live, labels = run(EVERYWHERE, tmp_path)
    assert simulated == live
    assert labels == ["naive", "now and then"]
    probabilities = [probability for probability, _, _ in simulated]
    assert probabilities == [0.0, 0.0, 0.75, 0.0, 0.0, 0.75, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0]  # 2 in all


def test_an_edited_rule_is_compiled_anew(tmp_path: Path) -> None:
    """Compiled code is kept for a rule from outside too, until its file changes."""
    rule = tmp_path / "rule.py"
    rule.write_text(RULE, encoding="utf-8")
    assert run(ASKED, tmp_path) == [0.75, 0]
    assert run(ASKED, tmp_path) == [0.75, 1]
    rule.write_text(RULE.replace("min(p.rule.settings[1],", "min(0.5 * p.rule.settings[1],"), encoding="utf-8")
    assert run(ASKED, tmp_path) == [0.375, 0]
    second = "\n\n@dataclass(frozen=True, kw_only=True)\nclass Other(NowAndThen):\n    '''Another.'''\n\n"
    added = RULE.replace("\n\nREVEALERS.add(", second + "\nREVEALERS.add(Other, outside=True)\nREVEALERS.add(")
    rule.write_text(added, encoding="utf-8")
    assert run(ASKED, tmp_path) == [0.75, 0]


def test_numbers_are_given_in_order() -> None:
    """A class's number is its place, and a second class of the same name is refused."""
    for registry in (REVEALERS, RECOMMENDERS, WORLDS):
        assert [entry.number for entry in registry] == list(range(len(registry.entries)))
        assert list(registry.named().values()) == registry.entries
    with pytest.raises(InputError, match=r"^a revealer is called Always already; expected another name$"):
        REVEALERS.add(Always)


def test_what_comes_too_late_is_refused() -> None:
    """Once something has run, compiled code would not know a new class: it is refused, not mistaken for another."""
    registry = Registry("revealer")
    early, late = type("Early", (), {}), type("Late", (), {})
    registry.add(early)
    registry.sealed = True
    with pytest.raises(StateError, match=r"^revealer Late comes too late; expected it to be registered before"):
        registry.add(late)
    assert registry.entries == [early]
