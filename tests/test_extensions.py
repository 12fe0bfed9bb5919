"""Compiled code and rules from outside the package: what is kept is theirs as they are now."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import opportune as op
from opportune.recommenders import RECOMMENDERS
from opportune.revealers import REVEALERS
from opportune.worlds import WORLDS

RULE = '''
"""A revealer that a user might write: with the same probability at every so-many-th step, within the budget."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from opportune.engine.compiled import driver_function
from opportune.engine.hooks import consult
from opportune.engine.views import participant_at
from opportune.extend import (
    Declares, Judged, Moment, Numbers, Revealer, inner_function, register, spent_so_far
)


class Settings(NamedTuple):
    """Its settings in numbers."""

    every: Annotated[Numbers, 1]
    probability: Annotated[Numbers, 1]


@inner_function
def weigh(p, own, moment, judged):
    if moment.step % int(own.settings.every[0]) != 0:
        return 0.0, 0.0
    return min(own.settings.probability[0], p.rule.amount[0] - spent_so_far(p)), 0.0


@dataclass(frozen=True, kw_only=True)
class NowAndThen(Revealer):
    """Reveal with a given probability at every so-many-th step."""

    every: int
    probability: float
    label: ClassVar[str] = "now and then"
    kind: ClassVar[str] = "now and then"
    declares: ClassVar[Declares] = Declares(settings=Settings)
    consult: ClassVar[Any] = staticmethod(weigh)

    def numbers(self, use: Any) -> dict[str, float]:
        return {"every": float(self.every), "probability": self.probability}


register(NowAndThen)


@driver_function
def ask(handle, kind, step):
    """The rule with this number, asked directly."""
    return consult(kind, participant_at(handle), Moment(step, 0, 0, 0), Judged(0.5, 0.0, 0, 0, 0))[0]
'''

ASKED = """
import json
import opportune as op
import rule

policy = op.Policy(revealer=rule.NowAndThen(every=1, probability=0.75), budget=op.Budget(2))
agent = op.Agent.seated(op.synthetic_worlds(1, seed=1)[0].problem, policy, horizon=12, seed=1, stream=1)
answer = rule.ask(agent.numbers.handle, rule.NowAndThen.number, 1)
print(json.dumps([answer, sum(rule.ask.stats.cache_hits.values())]))
"""


WORLD = op.synthetic_worlds(1, seed=1)[0]


def run(script: str, folder: Path) -> Any:
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths, "OPPORTUNE_CACHE_DIR": str(folder / "cache")},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_an_edited_rule_is_compiled_anew(tmp_path: Path) -> None:
    """Code is kept for a rule from outside too, until its file changes or another comes before it."""
    rule = tmp_path / "rule.py"
    rule.write_text(RULE, encoding="utf-8")
    assert run(ASKED, tmp_path) == [0.75, 0]
    assert run(ASKED, tmp_path) == [0.75, 1]
    rule.write_text(
        RULE.replace("min(own.settings.probability[0],", "min(0.5 * own.settings.probability[0],"), encoding="utf-8"
    )
    assert run(ASKED, tmp_path) == [0.375, 0]
    second = "@dataclass(frozen=True, kw_only=True)\nclass Other(NowAndThen):\n    kind: ClassVar[str] = 'other'\n\n"
    added = RULE.replace("register(NowAndThen)", second + "register(Other)\nregister(NowAndThen)")
    rule.write_text(added, encoding="utf-8")
    assert run(ASKED, tmp_path) == [0.75, 0]


IN_A_STUDY = """
import json
import opportune as op
import rule
from opportune.study import parse_study

TEXT = '''
[study]
name = "own"
horizon = 10
actions = ["rest", "walk"]
budgets = [2]
[variables.stress]
range = [1, 3]
[reward]
formula = "action*stress"
noise_sd = 0.2
theta_bound = 3.0
[effects]
"*" = 0.5
[[policies]]
kind = "now and then"
every = 2
'''

def refused(text):
    try:
        parse_study(text)
    except op.InputError as error:
        return str(error)

study = parse_study(TEXT + "probability = 0.5")
print(json.dumps([
    repr(study.policies()[0].revealer), refused(TEXT), refused(TEXT + "probably = 0.5"),
    refused(TEXT + "probability = 0.5\\nsettings = {}"),
]))
"""


def test_a_study_file_gives_a_rule_its_own_settings(tmp_path: Path) -> None:
    """A rule from outside has its settings as keys of [[policies]], like the package's own."""
    (tmp_path / "rule.py").write_text(RULE, encoding="utf-8")
    made, lacking, unknown, inner = run(IN_A_STUDY, tmp_path)
    assert made == "NowAndThen(every=2, probability=0.5)"
    assert "line 15: [[policies]] of kind 'now and then' lacks 'probability'; expected a value" in lacking
    assert "unknown key 'probably' in [[policies]]" in unknown
    assert "unknown key 'settings' in [[policies]]" in inner


def test_a_subclass_that_is_not_registered_is_refused() -> None:
    """Compiled code would run its parent's rule, under its name."""

    @dataclass(frozen=True, kw_only=True)
    class MyPace(op.Pace):
        pass

    class MyUcb(op.LinUCB):
        pass

    class MyWorld(op.LinearWorld):
        pass

    calls: dict[str, Callable[[], Any]] = {
        "MyPace": lambda: op.Policy(revealer=MyPace(), budget=op.Budget(2)),
        "MyUcb": lambda: op.Policy(recommender=MyUcb(), budget=op.Budget(2)),
        "MyWorld": lambda: op.simulate(
            MyWorld(WORLD.problem, theta=WORLD.theta), op.pd2_ucb(2), horizon=3, replicates=1, seed=1
        ),
    }
    for name, call in calls.items():
        expected = f"^{name} is not registered; expected one that is: write @opportune.register above its class$"
        with pytest.raises(op.InputError, match=expected):
            call()


OWN_ARRIVALS = '''
from typing import Any, ClassVar

from opportune.extend import LinearWorld, Moment, inner_function, register


@inner_function
def take_turns(p, own, draws, step, arrival):
    return Moment(step, 0, step % 3, step % 3)


@register
class Turns(LinearWorld):
    """Contexts 0, 1 and 2 take turns."""

    arrive: ClassVar[Any] = staticmethod(take_turns)
'''

COUNTED = """
import json
import numpy as np
import opportune as op
import world

base = op.synthetic_worlds(1, seed=1)[0]
turns = world.Turns(base.problem, theta=base.theta, context_probs=base.context_probs)
settings = {"horizon": 30, "replicates": 2, "seed": 1, "progress": False}
whole, bare = (op.simulate(turns, op.pd2_ucb(5), trace=trace, **settings) for trace in (True, False))
differ = np.abs(op.regret(whole).isel(step=-1) - op.regret(bare)).max()
print(json.dumps([bare["context_count"].values[0, 0].tolist(), bool(differ < 1e-9)]))
"""


def test_arrivals_are_counted_by_the_worlds_own_rule(tmp_path: Path) -> None:
    """Regret without a trace is that with one in a linear world with arrivals of its own."""
    (tmp_path / "world.py").write_text(OWN_ARRIVALS, encoding="utf-8")
    assert run(COUNTED, tmp_path) == [[10, 10, 10, 0, 0, 0, 0, 0, 0, 0], True]


def test_numbers_are_given_in_order() -> None:
    """A class's number is its place in its registry."""
    for registry in (REVEALERS, RECOMMENDERS, WORLDS):
        assert [entry.number for entry in registry] == list(range(len(registry.entries)))
        assert list(registry.named().values()) == registry.entries
