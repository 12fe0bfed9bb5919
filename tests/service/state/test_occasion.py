"""Why a nudge was made: each reason is held to the numbers of its decision, by a plain reading of the formulas."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median_low
from typing import Any

import numpy as np
import pytest

from opportune.live.agent import Agent
from opportune.live.point import Step
from opportune.rehearsal.demo import study_text
from opportune.revealers.pace import Notes
from opportune.revealers.ranking import BY_RANK
from opportune.service.state.occasion import LEAST_HISTORY, Occasion, occasion_of
from opportune.service.state.study import StudyInForce

PEOPLE, STEPS = 20, 50
TINY = 1e-9


@dataclass
class Explained:
    """A decision of the demonstration's study: its reason, and the numbers it was made by."""

    occasion: Occasion
    sensed: dict[str, Any]
    usual: dict[str, Any]
    """What is usual of each sensed variable, where the participant's own past tells."""
    rows: dict[tuple[Any, ...], Any]
    """What each action is worth, by (stress, sleep) at this time of day."""
    odds: dict[tuple[Any, ...], float]
    blind: int
    """b(z)."""
    worth: float
    notes: Any
    """What PACE went by."""
    nudged: bool
    advised: str | None
    """What was advised, if the participant was reached."""

    def gain(self, **changed: Any) -> float:
        """D, with some values changed."""
        row = self.rows[at(self, **changed)]
        return float(row.max() - row[self.blind])

    def gain_at(self, key: tuple[Any, ...]) -> float:
        """D of another combination of what is sensed."""
        return float(self.rows[key].max() - self.rows[key][self.blind])

    def contribution(self, name: str) -> float:
        """D less D with a variable at its blind mean."""
        place = ("stress", "sleep").index(name)
        alike = [key for key in self.rows if key[1 - place] == at(self)[1 - place]]
        row = np.average([self.rows[key] for key in alike], axis=0, weights=[self.odds[key] for key in alike])
        return self.gain() - float(row.max() - row[self.blind])


def at(one: Explained, **changed: Any) -> tuple[Any, ...]:
    """The combination of what is sensed, with some values changed."""
    values = {**one.sensed, **changed}
    return values["stress"], values["sleep"]


def numbers_of(agent: Agent, stratum: int) -> tuple[dict[Any, Any], dict[Any, float], int]:
    """What each action is worth by what is sensed, how probable that is, and b(z): straight from theta."""
    problem: Any = agent.problem
    theta = agent.numbers.parts(("model",))["model.theta"] / problem.units
    means = problem.features @ theta  # [contexts, actions]
    probs = problem.context_probs
    inside = problem.stratum_of == stratum
    rows, odds = {}, {}
    for k in np.flatnonzero(inside):
        level = problem.levels(int(k))
        alike = problem.sense_of == problem.sense_of[k]
        rows[level["stress"], level["sleep"]] = probs[alike] @ means[alike] / probs[alike].sum()
        odds[level["stress"], level["sleep"]] = float(probs[alike].sum())
    return rows, odds, int(np.argmax(probs[inside] @ means[inside]))


def usual_of(agent: Agent, step: Step) -> dict[str, Any]:
    """The median of numbers, the most frequent of words, of the latest 14 values at this time of day; else of all."""
    found = {}
    for name in ("stress", "sleep"):
        before = [agent.steps[n].given[name] for n in range(step.step - 1, 0, -1)]
        same = [agent.steps[n].given[name] for n in range(step.step - 2, 0, -2)]
        values = (same if len(same) >= LEAST_HISTORY else before)[:14]
        if len(values) >= LEAST_HISTORY:
            numbers = isinstance(values[0], int)
            found[name] = median_low(values) if numbers else Counter(values).most_common(1)[0][0]
    return found


def course() -> Iterator[Explained]:
    """A thousand decisions of the demonstration's study, each of which says why."""
    running = StudyInForce.from_text(study_text(("08:00", "16:00"), "UTC"))
    cohort, rnd = running.cohorts()[""], random.Random(7)
    for number in range(PEOPLE):
        agent = cohort.seat(number, stream=number)
        agent.explains = True
        problem: Any = agent.problem
        truth = np.array([rnd.gauss(0.0, 4.0) for _ in range(problem.d)])
        for _ in range(STEPS):
            context = rnd.choices(range(problem.contexts), problem.context_probs)[0]
            levels = problem.levels(context)
            sensed = {name: levels[name] for name in ("stress", "sleep")}
            made = agent.propose(sensed, reported={"mood": levels["mood"]})
            step = agent.steps[made.step]
            usual = usual_of(agent, step)
            rows, odds, blind = numbers_of(agent, step.place.stratum)
            occasion = occasion_of(agent, made, step)
            assert made.notes is not None
            settled = agent.settle(answered=rnd.random() < 0.75 if made.nudged else None)
            advised = settled.action if settled.revealed else None
            yield Explained(
                occasion, sensed, usual, rows, odds, blind, made.notes[0], Notes(*made.notes), made.nudged, advised
            )
            features = problem.features[step.place.context, problem.action_names.index(settled.action)]
            agent.learn(float(features @ truth) + rnd.gauss(0.0, 8.0))


@pytest.fixture(scope="module")
def explained() -> list[Explained]:
    """The decisions."""
    return list(course())


def violations(one: Explained, named: list[tuple[str, Any]]) -> list[str]:
    """What is wrong with naming these variables, with these usual values, as reasons of a decision."""
    found = []
    for name, usual in named:
        levels = {"stress": range(1, 6), "sleep": ("good", "poor")}[name]
        if len({int(np.argmax(one.rows[at(one, **{name: level})])) for level in levels}) == 1:
            found.append(f"{name} cannot change the advice")
        if not one.gain(**{name: usual}) < one.gain() - TINY:
            found.append(f"{name} at {usual} does not lower the rank of {at(one)}")
    return found


def rarest(one: Explained) -> list[tuple[str, Any]]:
    """The control: what differs from the usual, whether or not that matters."""
    return [(name, usual) for name, usual in one.usual.items() if one.sensed[name] != usual][:1]


def test_reasons_of_a_thousand_decisions(explained: list[Explained]) -> None:
    """A variable that is named, set to its usual value, lowers the rank; one that changes nothing is never named."""
    assert len(explained) == 1000
    named = [[(v.variable, v.usual) for v in one.occasion.variables] for one in explained]
    assert sum(map(bool, named)) > 50
    assert [text for one, given in zip(explained, named, strict=True) for text in violations(one, given)] == []
    assert all(name != "sleep" for given in named for name, _ in given)  # by the formula it is the same for all actions
    for one in explained:
        for v in one.occasion.variables:
            assert v.value == one.sensed[v.variable] != v.usual
            assert v.usual == one.usual.get(v.variable, v.usual)
            assert v.contribution == pytest.approx(one.contribution(v.variable), abs=1e-9)
        assert one.occasion.gain == pytest.approx(one.gain(), abs=1e-9)


def test_the_rarest_value_is_no_reason(explained: list[Explained]) -> None:
    """The control: naming whatever differs from other days breaks both promises, often."""
    wrong = [text for one in explained for text in violations(one, rarest(one))]
    assert any("cannot change the advice" in text for text in wrong)
    assert any("does not lower the rank" in text for text in wrong)


def test_a_debt_is_named_where_it_counts_for_more(explained: list[Explained]) -> None:
    """The debt is the worth less the gain; it is the reason if it is the larger part, and only then."""
    for one in explained:
        gain = one.gain()
        debt = one.worth - gain
        if abs(debt - gain) > TINY:
            assert one.occasion.debt == (debt > gain and debt > TINY), one


def served(one: Explained, left: float) -> bool:
    """Whether PACE, before its coin, would nudge in this moment with so much left: its rule by hand."""
    notes = one.notes
    to_come = notes.left / notes.share if notes.share < 1.0 else notes.to_come
    share = min(1.0, left / max(1.0, to_come))
    return one.worth > TINY and notes.above + notes.tied / 4 <= share + TINY


def test_with_fewer_calls_left_it_would_have_waited(explained: list[Explained]) -> None:
    """By the rule worked out by hand: with the number that is named it still nudges, with one fewer it does not."""
    named = [one for one in explained if one.occasion.least_left is not None and one.notes.cause == BY_RANK]
    named = [one for one in named if one.notes.share < 1.0]
    assert len(named) > 20
    for one in named:
        least, part = one.occasion.least_left, one.notes.left - int(one.notes.left)
        assert least is not None
        assert 1 < least <= one.notes.left
        assert served(one, least + part), one
        assert not served(one, least - 1 + part), one


def test_at_its_usual_value_it_would_have_waited(explained: list[Explained]) -> None:
    """If it is said so, the moment's worth with that value is less than that of moments the budget can pay for."""
    said = [one for one in explained if one.occasion.unless_usual]
    assert len(said) > 10
    for one in said:
        first = one.occasion.variables[0]
        usual = one.gain(**{first.variable: first.usual}) + one.notes.debt
        assert usual < one.worth - TINY
        better = sum(one.odds[key] for key in one.rows if one.gain_at(key) > usual + TINY)
        assert usual <= TINY or better > 0.0


def test_how_sure_is_how_often(explained: list[Explained]) -> None:
    """Of calls that were answered, the advice that was said to be likely came about as often as it was said."""
    reached = [one for one in explained if one.advised is not None and one.nudged]
    assert len(reached) > 100
    said = sum(one.occasion.sure for one in reached)
    came = sum(one.advised == one.occasion.instead for one in reached)
    spread = sum(one.occasion.sure * (1 - one.occasion.sure) for one in reached) ** 0.5
    assert abs(said - came) < 3 * spread + 0.05 * len(reached)


def test_asking_changes_nothing() -> None:
    """An agent that says why goes on exactly as one that does not."""
    running = StudyInForce.from_text(study_text(("08:00", "16:00"), "UTC"))
    agents = [running.cohorts()[""].seat(0, stream=3) for _ in range(2)]
    agents[0].explains = True
    rnd = random.Random(1)
    for _ in range(40):
        sensed = {"stress": rnd.randint(1, 5), "sleep": rnd.choice(["good", "poor"])}
        reward = rnd.gauss(20.0, 8.0)
        for agent in agents:
            made = agent.propose(sensed, reported={"mood": "fair"})
            if agent.explains:
                occasion_of(agent, made, agent.steps[made.step])
            agent.settle(answered=True if made.nudged else None)
            agent.learn(reward)
    first, second = (agent.numbers.row(tuple(agent.numbers.arrays)) for agent in agents)
    np.testing.assert_array_equal(first, second)
