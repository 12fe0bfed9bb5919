"""Variables of a participant's own history: what is on record when the decision is made, in simulation and live."""

import itertools
import json
from typing import Any

import numpy as np
import pytest

import opportune as op
from opportune.algorithm.rng import DELAY, LOST, draw
from opportune.errors import InputError
from opportune.problems.history import History
from opportune.simulation.visit import reward_with, visit
from opportune.testing.cases import SEED, Case, simulated
from opportune.testing.live import check_live
from opportune.worlds.distributions import Uniform
from opportune.worlds.expected import expected_features

HISTORIES = {
    "recent": History(of="reward", summary="mean", decisions=5, discount=0.8, low=-1.0, high=3.0),
    "lately": History(of="reward", summary="sum", days=2, low=-2.0, high=4.0, initial=0.5),
    "dose": History(of="nudges", summary="sum", days=3),
    "answering": History(of="answered", summary="mean", decisions=6, initial=0.25),
    "opened": History(of="opened", summary="sum", decisions=4, discount=0.5),
    "silence": History(of="contact", summary="days since", days=3),
    "calm": History(of="nudges", summary="days since"),
}
EVERYTHING = {"open_rate": 0.15, "response_rate": 0.6, "available_rate": 0.85, "reward_rate": 0.8, "reward_delay": 3}


def problem(**settings: Any) -> Any:
    """Two decisions a day; every history variable matters for what to do."""
    variables: dict[str, Any] = {"tod": op.TimeOfDay(["am", "pm"]), "steps": op.Number(0.0, 2.0), **HISTORIES}
    names = " + ".join(HISTORIES)
    return op.Problem.from_formula(
        f"1 + tod + steps + action * ({names} + steps)", variables, ["rest", "walk"], theta_bound=4.0, noise_sd=0.4,
        value_range=(-3.0, 5.0), largest_gap=3.0, **settings,
    )  # fmt: skip


def world(made: Any = None, *, theta: Any = None, **happenings: Any) -> op.ContinuousWorld:
    made = problem() if made is None else made
    given = np.random.default_rng(4).normal(scale=0.4, size=made.d) if theta is None else theta
    return op.ContinuousWorld(made, theta=given, distributions={"steps": Uniform(0.0, 2.0)}, **happenings)


class Record:
    """What is on record of a participant, and the history variables by hand: a second reading."""

    def __init__(self) -> None:
        self.nudged: dict[int, bool] = {}
        self.revealed: dict[int, bool] = {}
        self.reward: dict[int, float] = {}

    def events(self, of: str, step: int) -> float | None:
        """What is on record of a decision point, if anything."""
        if of == "reward":
            return self.reward.get(step)
        nudged, revealed = self.nudged[step], self.revealed[step]
        return float({"nudges": nudged, "answered": nudged and revealed, "opened": revealed and not nudged,
                      "contact": revealed}[of])  # fmt: skip

    def value(self, name: str, step: int) -> float:
        """A history variable at a decision point to come."""
        h = problem().histories[name]
        if h.summary == "days since":
            with_it = [s for s in self.nudged if self.events(h.of, s)]
            found = (step - max(with_it)) / 2.0 if with_it else h.initial
        else:
            back = [
                (h.discount ** (step - 1 - s), self.events(h.of, s)) for s in range(max(1, step - h.decisions), step)
            ]
            known = [(weight, x) for weight, x in back if x is not None]
            total = sum(weight * x for weight, x in known)
            found = total if h.summary == "sum" else total / sum(w for w, _ in known) if known else 0.0
            found = found if known else h.initial
        return float(np.clip(found, h.low, h.high))


def test_values_are_those_of_the_record_when_the_decision_is_made() -> None:
    """Nudges, answers, openings, absences, late and corrected rewards: each value as by hand, also after a restart."""
    rng = np.random.default_rng(8)
    policy = op.Policy(revealer=op.FixedRate(), recommender=op.LinUCB(), budget=op.Budget(30))
    agent = op.Agent(problem(), policy, horizon=80, seed=3, stream=1)
    record, waiting = Record(), []
    seen: dict[str, set[float]] = {name: set() for name in HISTORIES}
    for step in range(1, 81):
        opened, available = bool(rng.random() < 0.2), bool(rng.random() < 0.9)
        made = agent.propose({"steps": float(rng.uniform(0, 2))}, opened=opened, available=available)
        if step % 9 == 0:
            agent = op.Agent.from_dict(json.loads(json.dumps(agent.to_dict())))
        answered = bool(rng.random() < 0.6) if made.nudged else None
        decision = agent.settle(answered=answered)
        for name in HISTORIES:
            assert decision.context[name] == pytest.approx(record.value(name, step), abs=1e-12), (name, step)
            seen[name].add(decision.context[name])
        record.nudged[step], record.revealed[step] = made.nudged, decision.revealed
        if available:
            waiting.append(step)
        while waiting and rng.random() < 0.6:
            late = waiting.pop(int(rng.integers(len(waiting))))
            record.reward[late] = float(rng.normal(1.0, 1.5))
            agent.learn(record.reward[late], step=late)
        if step % 5 == 0 and record.reward:
            wrong = max(record.reward)
            record.reward[wrong] -= 1.0
            agent.correct(record.reward[wrong], step=wrong)
        if step % 7 == 0:
            agent = op.Agent.from_dict(json.loads(json.dumps(agent.to_dict())))
    assert all(len(values) > 3 for values in seen.values())


@pytest.mark.parametrize("happenings", [{}, EVERYTHING], ids=["all on time", "everything"])
def test_simulated_outcomes_follow_the_record(happenings: dict[str, Any]) -> None:
    """A world in which one history variable is all that counts has that variable, by hand, as its outcome."""
    made = problem()
    for name in HISTORIES:
        theta = np.array([float(feature == name) for feature in made.program.names])
        assert theta.sum() == 1.0
        there = world(made, theta=theta, noise_sd=0.7, **happenings)
        data = op.simulate(there, op.pace_ucb(12), horizon=40, replicates=2, seed=6, progress=False).isel(
            policy=0, world=0
        )
        for replicate in range(2):
            run = data.isel(replicate=replicate)
            record, key = Record(), (np.uint64(6), np.uint64(replicate))
            for step in range(1, 41):
                now = run.sel(step=step)
                assert float(now["outcome"]) == pytest.approx(record.value(name, step), abs=1e-12)
                record.nudged[step], record.revealed[step] = bool(now["nudged"]), bool(now["revealed"])
                for s in range(max(1, step - 3), step + 1):
                    lost = happenings and draw(*key, s, LOST) >= 0.8
                    late = min(int(draw(*key, s, DELAY) * 4), 3) if happenings else 0
                    if not lost and s + late == step and bool(run["available"].sel(step=s)):
                        record.reward[s] = float(run["reward"].sel(step=s))


def test_people_met_again_bring_what_they_brought() -> None:
    """Whoever knows a moment's values gets the reward that `simulate` drew there; other values bring another."""
    there = world(**EVERYTHING)
    run = op.simulate(there, op.pace_ucb(12), horizon=30, replicates=1, seed=6, progress=False).squeeze()
    record, compared = Record(), 0
    steps = visit(there, np.zeros(30, dtype=np.int64), seed=6, stream=0).values[:, 1]
    for step in range(1, 31):
        now = run.sel(step=step)
        context = {"steps": steps[step - 1], **{name: record.value(name, step) for name in HISTORIES}}
        values = there.problem.values(context, step).values
        if not np.isnan(now["reward"]):
            got = reward_with(there, values, step, int(now["action"]), seed=6, stream=0)
            assert got == pytest.approx(float(now["reward"]), abs=1e-10)
            other = reward_with(there, there.problem.middle, step, int(now["action"]), seed=6, stream=0)
            compared += abs(other - got) > 1e-6
        record.nudged[step], record.revealed[step] = bool(now["nudged"]), bool(now["revealed"])
        for s in range(max(1, step - 3), step + 1):
            late = min(int(draw(np.uint64(6), np.uint64(0), s, DELAY) * 4), 3)
            if s + late == step and not np.isnan(reward := float(run["reward"].sel(step=s))):
                record.reward[s] = reward
    assert compared > 5


@pytest.mark.parametrize(
    "policy",
    [
        op.pace_ucb(8),
        op.pd2_ucb(op.Budget(14, shared=True)),
        op.Policy(recommender=op.Thompson(), budget=op.Budget(8), pooled=True, name="pooled"),
        op.Policy(recommender=op.LinUCB(floor=0.1), budget=op.Budget(8), update=4, name="updates"),
    ],
    ids=["PACE", "PD2, shared", "Thompson, pooled", "floor, updates"],
)
@pytest.mark.parametrize("seen", ["sensed", "reported"])
def test_live_participants_decide_as_simulated_ones(policy: op.Policy, seen: str) -> None:
    """Bit for bit, saved and restored in between; with a reported variable too."""
    made = problem(visibility={"steps": seen})
    case = Case("history", [world(made, **EVERYTHING), world(made, theta=np.full(made.d, 0.1), **EVERYTHING)])
    data = simulated(case, [policy]).isel(policy=0)
    check_live("history", case, policy, data, resumed=False)
    check_live("history", case, policy, data, resumed=True)


def test_what_is_computed_matters() -> None:
    """The control: with other values of the history variables the same participants get other decisions."""
    plain = world(**EVERYTHING)
    changed = {
        name: h if name != "dose" else History(of="answered", summary="sum", days=3) for name, h in HISTORIES.items()
    }
    other = world(
        plain.problem.replace(variables={**plain.problem.variables, **changed}), theta=plain.theta, **EVERYTHING
    )
    one, two = (
        op.simulate(w, op.naive_ucb(30), horizon=60, replicates=2, seed=SEED, progress=False) for w in (plain, other)
    )
    assert not np.array_equal(one["gap"], two["gap"])


def test_the_app_must_not_send_what_is_computed() -> None:
    """A value for a history variable is refused; nothing has happened then."""
    agent = op.Agent(problem(), op.pace_ucb(3), horizon=10, seed=1, stream=1)
    with pytest.raises(InputError, match="context has 'dose'; expected it left out"):
        agent.propose({"steps": 1.0, "dose": 2.0})
    assert agent.step == 0
    assert agent.propose({"steps": 1.0}).available


def test_a_problem_keeps_its_history_variables() -> None:
    """As JSON and back; what was left open is said by then."""
    made = problem()
    again = op.ContinuousProblem.from_dict(json.loads(json.dumps(made.to_dict())))
    assert again.histories == made.histories
    assert made.histories["dose"] == History(of="nudges", summary="sum", decisions=6, low=0.0, high=6.0, initial=0.0)
    assert made.histories["silence"].initial == 3.0
    assert made.histories["recent"].initial == 1.0
    with pytest.raises(InputError, match="depend on decisions"):
        expected_features(made, {"steps": Uniform(0.0, 2.0)})


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"of": "rewards", "summary": "mean", "days": 1}, "of of History"),
        ({"of": "nudges", "summary": "max", "days": 1}, "summary of History"),
        ({"of": "nudges", "summary": "sum"}, "History has neither decisions nor days"),
        ({"of": "nudges", "summary": "sum", "days": 1, "decisions": 2}, "History has decisions and days"),
        ({"of": "reward", "summary": "days since"}, "days since a reward"),
        ({"of": "reward", "summary": "mean", "days": 2}, "History of rewards has no range"),
        ({"of": "contact", "summary": "days since", "discount": 0.5}, "days since and a discount"),
        ({"of": "nudges", "summary": "sum", "days": 1, "discount": 0.0}, "discount of History is 0"),
        ({"of": "nudges", "summary": "sum", "days": 1, "high": -1.0}, "expected low < high"),
        ({"of": "nudges", "summary": "sum", "days": 1, "high": 3.0, "initial": 4.0}, "initial of History is 4"),
    ],
)
def test_what_cannot_be_computed_is_refused(settings: dict[str, Any], text: str) -> None:
    """A wrong setting is refused with what was given and expected."""
    with pytest.raises(InputError, match=text):
        History(**settings)


def test_history_is_sensed_and_not_drawn() -> None:
    """It cannot be public, nor have a distribution of its own."""
    with pytest.raises(InputError, match="visibility of 'dose' is 'public'; expected 'sensed'"):
        problem(visibility={"dose": "public"})
    made = problem()
    with pytest.raises(InputError, match="'dose' has a distribution; expected none"):
        op.ContinuousWorld(
            made, theta=np.zeros(made.d), distributions={"steps": Uniform(0.0, 2.0), "dose": Uniform(0, 1)}
        )


def test_what_is_known_of_blind_moments_is_counted() -> None:
    """Without a reveal the recommender goes by running means of history variables, as of other numbers."""
    made = problem()
    hidden = dict(zip(made.program.names, made.hidden_from_recommender, strict=True))
    assert all(hidden[name] for name in itertools.chain(HISTORIES, ["steps"]))
    assert not made.hidden_from_revealer.any()
