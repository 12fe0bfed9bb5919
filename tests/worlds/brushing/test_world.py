"""Brushing worlds: the whole loop against a plain second reading, and what the settings do."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

import opportune as op
from opportune.algorithm import rng
from opportune.errors import InputError
from opportune.simulation import simulate
from opportune.worlds import SimulatedWorld
from opportune.worlds.brushing import step as brushing_step
from opportune.worlds.brushing.problem import brushing_problem
from opportune.worlds.brushing.table import BrushingTable, load_table, save_table
from opportune.worlds.brushing.world import BrushingWorld, brushing_world

Floats = NDArray[np.float64]
STUDIES = ("robas3", "robas2")
LONG_ENOUGH = [0, 1, 2, 3, 6, 7, 9, 10, 11, 12]
NEVER_SEND = op.Policy(recommender=op.FixedAction(action=0), revealer=op.Never(), name="never send")
ALWAYS_SEND = op.Policy(recommender=op.FixedAction(action=1), revealer=op.Never(), name="always send")
COIN_FLIP = op.Policy(recommender=op.EqualCoins(), revealer=op.Never(), name="coin flip")


def run(worlds: Any, policies: Any, **changes: Any) -> xr.Dataset:
    settings: dict[str, Any] = {"horizon": 140, "replicates": 3, "seed": 1, "progress": False} | changes
    return simulate(worlds, policies, **settings)


# A plain second reading of the loop: everything is worked out anew from lists of what happened.


@dataclass
class Known:
    """What an agent has been told: rewards with their features, and what was sensed in which stratum."""

    rows: list[tuple[Floats, float]] = field(default_factory=list)
    sensed: list[tuple[int, float, float]] = field(default_factory=list)

    def copy(self) -> "Known":
        """The same, which later additions leave alone."""
        return Known(list(self.rows), list(self.sensed))


@dataclass
class Plain:
    """One user and both agents; `effects` is (Delta_B, Delta_N), `means` those of the strata [2, 4] if known."""

    study: str
    table: BrushingTable
    user: int
    effects: tuple[float, float]
    means: Floats | None = None
    cost: float = 0.0
    open_rate: float = 0.0
    response_rate: float = 1.0
    rule: str = "PD2"
    budget: float = 30.0
    adaptive: bool = False
    horizon: int = 140
    seed: int = 1
    stream: int = 0

    def public(self, t: int) -> tuple[int, int, float]:
        """(tod, weekend, day) of session t, counted from 0."""
        w0 = int(self.table.first_weekend[self.user])
        weekend = int(t >= w0 and (t - w0) % 14 < 4)
        return t % 2, weekend, (t // 2 + 1 - 35.5) / 34.5

    def sense(self, past: list[float]) -> tuple[float, float]:
        """(prior, prop) after these outcomes."""
        t = len(past)
        m, s = {"robas2": (172.0, 118.0), "robas3": (154.0, 163.0)}[self.study]
        morning = t - t % 2
        yesterday = sum(past[morning - 2 : morning]) if morning >= 2 else 0.0
        prop = sum(q > 0 for q in past[-14:]) / 14 if t >= 14 else 0.0
        return (yesterday - m) / s, prop

    def phi(self, t: int, prior: float, prop: float, action: int) -> Floats:
        """[g; a*h]."""
        tod, weekend, day = self.public(t)
        days = [day] if self.study == "robas3" else []
        g = [tod, prior, *days, prop, weekend, 1.0]
        h = [tod, prior, *days, weekend, 1.0]
        return np.array([*g, *(action * entry for entry in h)], dtype=np.float64)

    def blind(self, known: Known, t: int) -> list[Floats]:
        """Features with the sensed values replaced by their means in the cell."""
        tod, weekend, _ = self.public(t)
        cell = tod + 2 * weekend
        seen = [(prior, prop) for where, prior, prop in known.sensed if where == cell]
        prior, prop = np.mean(seen, axis=0) if seen else (0.0, 0.0)
        if self.means is not None:
            prior, prop = self.means[:, cell]
        return [self.phi(t, float(prior), float(prop), a) for a in range(2)]

    def ucbs(self, known: Known, features: list[Floats]) -> list[float]:
        """R = 1/2, W = 1, so lam = 1; delta = 0.05."""
        d = features[0].size
        V = np.eye(d)
        total = np.zeros(d)
        for x, reward in known.rows:
            V = V + np.outer(x, x)
            total = total + x * reward
        theta = np.linalg.solve(V, total)
        radius = 0.5 * math.sqrt(2 * math.log(20) + np.linalg.slogdet(V)[1]) + 1.0
        return [float(x @ theta) + radius * math.sqrt(x @ np.linalg.solve(V, x)) for x in features]

    def outcome(self, x: Floats, action: int, t: int) -> float:
        """The session's capped outcome, from the draws of the step."""
        width = 5 if self.study == "robas2" else 6
        g, h_sum = x[:width], float(x[width:].sum())
        log_odds = g @ self.table.w_b[self.user] - max(self.effects[0] * h_sum, 0.0)
        rate = math.exp(g @ self.table.w_p[self.user] + max(self.effects[1] * h_sum, 0.0))
        if self.draw(t, rng.ZERO) < 1 / (1 + math.exp(-log_odds)):
            return 0.0
        return min(float(stats.poisson.ppf(self.draw(t, rng.NOISE), rate)), 180.0)

    def draw(self, t: int, purpose: int) -> float:
        """The draw of session t, counted from 0; the simulation's steps count from 1."""
        return float(rng.draw(self.seed, self.stream, t + 1, purpose))

    def probability(self, t: int, gap: float, n: float, price: float, spent: float) -> float:
        """The revealer's rule."""
        left = self.budget - spent
        if self.rule == "naive":
            return min(self.budget / self.horizon, max(left, 0.0))
        boost = 0.0
        if self.rule == "PD2":
            tolerance = 1.2 * math.log(10) * math.sqrt(10) / math.log(self.budget) / math.sqrt(t + 1)
            if n > 0 and tolerance < n and gap > 0 and gap - price > 0:
                boost = 1 - tolerance / n
        return min(gap + boost, left, 1.0) if price < 1 and gap - price + boost > 0 else 0.0

    def course(self) -> dict[str, list[float]]:
        """Every decision of the course, by the names of the simulation's variables."""
        names = ("gap", "disagreement", "price", "probability", "fresh_action", "stale_action", "opened",
                 "nudged", "revealed", "action", "outcome", "reward")  # fmt: skip
        log: dict[str, list[float]] = {name: [] for name in names}
        revealer, recommender, past = Known(), Known(), list[float]()
        price = spent = 0.0
        c = (1 + 1 / self.budget) ** self.budget
        for t in range(self.horizon):
            prior, prop = self.sense(past)
            full = [self.phi(t, prior, prop, a) for a in range(2)]
            bar = self.blind(revealer, t)
            u, fresh_scores = max(self.ucbs(revealer, full)), self.ucbs(revealer, bar)
            stale_scores = self.ucbs(recommender, self.blind(recommender, t))
            fresh, stale, v = int(np.argmax(fresh_scores)), int(np.argmax(stale_scores)), max(fresh_scores)
            scale = max(self.top(revealer, t) - v, 1e-12) if self.adaptive else 1.0
            gap = (u - v) / scale if abs(u - v) > 1e-12 else 0.0
            n = 0.0 if fresh == stale else float(np.linalg.norm(bar[fresh] - bar[stale]))
            opened = self.draw(t - t % 2, rng.OPEN) < self.open_rate
            o = 0.0 if opened else self.probability(t, gap, n, price, spent)
            nudged = self.draw(t, rng.COIN) < o
            revealed = opened or (nudged and self.draw(t, rng.ANSWER) < self.response_rate)
            if revealed:
                recommender = revealer.copy()
            action = int(np.argmax(self.ucbs(revealer, full))) if revealed else stale
            q = self.outcome(full[action], action, t)
            reward = (q - self.cost * action) / 180
            values = (gap, n, price, o, fresh, stale, opened, nudged, revealed, action, q, reward)
            for name, value in zip(names, values, strict=True):
                log[name].append(float(value))
            spent += o
            if self.rule != "naive":
                price = price * (1 + o / self.budget) + o / ((c - 1) * self.budget)
            tod, weekend, _ = self.public(t)
            revealer.rows.append((full[action], reward))
            revealer.sensed.append((tod + 2 * weekend, prior, prop))
            past.append(q)
        return log

    def top(self, known: Known, t: int) -> float:
        """The best score with prior and prop at either end of what they can be."""
        m, s = {"robas2": (172.0, 118.0), "robas3": (154.0, 163.0)}[self.study]
        ends = [(prior, prop) for prior in (-m / s, (360 - m) / s) for prop in (0.0, 1.0)]
        return max(max(self.ucbs(known, [self.phi(t, *end, a) for a in range(2)])) for end in ends)


def assert_same_course(data: xr.Dataset, expected: dict[str, list[float]]) -> None:
    """Every decision is the same; numbers agree to rounding. A gap far below 0 is a division by nearly 0."""
    for name, values in expected.items():
        found = data[name].values.astype(float)
        wanted = np.array(values)
        if name == "gap":
            far = wanted < -1e3
            assert (found[far] < 0).all()
            found, wanted = found[~far], wanted[~far]
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9, err_msg=name)


CASES: list[dict[str, Any]] = [
    {"study": "robas3"},
    {"study": "robas2"},
    {"study": "robas3", "rule": "naive"},
    {"study": "robas3", "rule": "PD1"},
    {"study": "robas3", "blind": "known"},
    {"study": "robas2", "blind": "known", "adaptive": True},
    {"study": "robas3", "adaptive": True, "budget": 7.5},
    {"study": "robas3", "cost": 25.0, "open_rate": 0.4, "response_rate": 0.6},
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(str(v) for v in c.values()))
def test_simulation_is_the_plain_reading(case: dict[str, Any]) -> None:
    """Simulation and a plain reading of the definitions agree on every decision of 140, user by user."""
    settings = dict(case)
    study, blind = settings.pop("study"), settings.pop("blind", "unknown")
    users = [1, 6, 12] if study == "robas3" else [0, 9, 31]
    worlds = brushing_world(
        study, users=users, blind=blind, message_cost=settings.get("cost", 0.0),
        open_rate=settings.get("open_rate", 0.0), response_rate=settings.get("response_rate", 1.0),
    )  # fmt: skip
    scale = "adaptive" if settings.get("adaptive") else "range"
    budget, rule = settings.get("budget", 30.0), settings.get("rule", "PD2")
    policy = {
        "naive": op.naive_ucb(budget),
        "PD1": op.pd1_ucb(budget, scale=scale),
        "PD2": op.pd2_ucb(budget, scale=scale),
    }[rule]
    data = run(worlds, policy, replicates=2, seed=5).isel(policy=0)
    table = load_table(study)
    for i, world in enumerate(worlds):
        means = np.stack([table.cell_prior[world.user], table.cell_prop[world.user]])
        plain = Plain(
            study, table, world.user,
            (float(world.params.delta_b[0]), float(world.params.delta_n[0])),
            means=means if blind == "known" else None, seed=5, stream=(i << 32) | 1, **settings,
        )  # fmt: skip
        expected = plain.course()
        if rule == "naive":
            del expected["gap"]  # it takes no part in the rule, so its scale is nobody's business
        assert_same_course(data.isel(world=i, replicate=1), expected)


def test_reference_policies_take_their_actions() -> None:
    """Never send, always send and coin flip do that, whatever is learned; no reveal, nothing spent."""
    data = run(brushing_world(users=2), [NEVER_SEND, COIN_FLIP, ALWAYS_SEND], replicates=20)
    shares = data["action"].mean(("world", "replicate", "step")).values
    assert shares[0] == 0.0
    assert shares[2] == 1.0
    assert shares[1] == pytest.approx(0.5, abs=0.03)
    assert not data["revealed"].any()
    assert not data["spent"].any()


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("blind", ["unknown", "known"])
@pytest.mark.parametrize("scale", ["range", "adaptive"])
def test_totals_without_trace_are_those_of_the_trace(study: str, blind: str, scale: str) -> None:
    """Totals are the same with and without a trace; outcomes are seconds from 0 to 180."""
    worlds = brushing_world(study, users=3, blind=blind)
    policies = [op.pd2_ucb(30, scale=scale), op.naive_ucb(30)]
    traced, bare = run(worlds, policies), run(worlds, policies, trace=False)
    assert "step" not in bare.dims
    for name in ("total_reward", "total_outcome", "spent", "nudges", "reveals", "final_price"):
        np.testing.assert_array_equal(traced[name], bare[name])
    outcome = traced["outcome"].values
    np.testing.assert_allclose(outcome.sum(axis=-1), bare["total_outcome"])
    assert ((outcome >= 0) & (outcome <= 180) & (outcome == np.floor(outcome))).all()
    assert (traced["spent"] <= 30 + 1e-9).all()
    assert np.isfinite(traced["gap"]).all()
    assert (traced["gap"].isel(policy=0) <= 1 + 1e-9).all() or scale == "range"


def test_simulation_depends_on_nothing_else_in_the_call() -> None:
    """A user's course does not depend on the other policies; another seed gives another course."""
    worlds = brushing_world(users=2)
    alone = run(worlds, op.pd2_ucb(30))
    beside = run(worlds, [NEVER_SEND, op.pd2_ucb(30)]).sel(policy="PD2")
    np.testing.assert_array_equal(alone["outcome"].values[0], beside["outcome"])
    assert (run(worlds, op.pd2_ucb(30), seed=2)["outcome"] != alone["outcome"]).any()


@pytest.mark.parametrize("study", STUDIES)
def test_without_effects_messages_do_nothing(study: str) -> None:
    """With zero effects never, always and randomly sending give the same outcomes, session by session."""
    worlds = brushing_world(study, users=3)
    for world in worlds:
        world.params.delta_b[0] = world.params.delta_n[0] = 0.0
    outcome = run(worlds, [NEVER_SEND, ALWAYS_SEND, COIN_FLIP])["outcome"].values
    np.testing.assert_array_equal(outcome[0], outcome[1])
    np.testing.assert_array_equal(outcome[0], outcome[2])


@pytest.mark.parametrize("study", STUDIES)
def test_sending_never_lowers_an_outcome(study: str) -> None:
    """On the same draws, always sending brushes at least as long at the first session and more in all."""
    data = run(brushing_world(study), [NEVER_SEND, ALWAYS_SEND], replicates=10)
    never, always = data["outcome"].values
    assert (always[..., 0] >= never[..., 0]).all()
    assert always.mean() > never.mean() + 20


def test_message_cost_lowers_the_reward_alone() -> None:
    """A cost takes c/180 from the reward of each message, leaves outcomes alone, and not sending is free."""
    policies = [NEVER_SEND, ALWAYS_SEND]
    free, dear = (
        run(brushing_world(users=2), policies),
        run(brushing_world(users=2, message_cost=18.0), policies),
    )
    np.testing.assert_array_equal(free["outcome"], dear["outcome"])
    np.testing.assert_array_equal(free["reward"].values[0], dear["reward"].values[0])
    np.testing.assert_allclose(free["reward"].values[1] - dear["reward"].values[1], 0.1)
    np.testing.assert_allclose(free["reward"], free["outcome"] / 180)
    assert dear["message_cost"].values.tolist() == [18.0, 18.0]


def test_openings_are_drawn_in_the_morning_and_hold_for_the_evening() -> None:
    """Morning and evening of a day are opened alike, at the rate given, and openings cost nothing."""
    data = run(brushing_world(open_rate=0.3), op.pd2_ucb(30), replicates=10)
    opened = data["opened"].values.reshape(-1, 70, 2)
    np.testing.assert_array_equal(opened[..., 0], opened[..., 1])
    assert opened.mean() == pytest.approx(0.3, abs=0.02)
    assert (data["revealed"] >= data["opened"]).all()
    assert not data["probability"].where(data["opened"], 0.0).any()
    always = run(brushing_world(users=2, open_rate=1.0), op.pd2_ucb(30))
    assert always["revealed"].all()
    assert not always["spent"].any()


def test_unanswered_nudges_reveal_nothing() -> None:
    """With response rate 0 nudges are spent, nothing is revealed, and the recommender stays as it began."""
    data = run(brushing_world(users=3, response_rate=0.0), op.pd2_ucb(30))
    assert (data["nudges"] > 0).all()
    assert not data["revealed"].any()
    assert (data["action"] == 1).all()  # knowing nothing, it is optimistic about messages


def test_nothing_revealed_is_always_sending() -> None:
    """A recommender without data prefers the action it is least sure of: it always sends."""
    data = run(brushing_world(), [op.Policy(revealer=op.Never(), name="nothing revealed"), ALWAYS_SEND])
    np.testing.assert_array_equal(data["action"].values[0], data["action"].values[1])
    np.testing.assert_array_equal(data["outcome"].values[0], data["outcome"].values[1])


# Who the users are.


def test_default_users() -> None:
    """ROBAS 3 gives its ten users with at least 140 sessions, ROBAS 2 its first ten."""
    assert [w.user for w in brushing_world()] == LONG_ENOUGH
    assert [w.user for w in brushing_world("robas2")] == list(range(10))
    assert [w.user for w in brushing_world(users=3)] == LONG_ENOUGH[:3]
    assert [w.user for w in brushing_world("robas2", users=32)] == list(range(32))
    assert [w.user for w in brushing_world(users=(12, 4, 4))] == [12, 4, 4]
    assert [w.user for w in brushing_world(users=np.array([5, 8]))] == [5, 8]


def test_worlds_are_worlds_with_names() -> None:
    """They are what simulate needs, and results say who is who and what a message does."""
    worlds = brushing_world(users=[2, 7])
    assert all(isinstance(w, SimulatedWorld) for w in worlds)
    data = run(worlds, ALWAYS_SEND)
    assert data["world_name"].values.tolist() == ["robas3 user 2", "robas3 user 7"]
    assert data["user"].values.tolist() == [2, 7]
    assert data["delta_b"].values.tolist() == [w.params.delta_b[0] for w in worlds]
    assert "robas3" in repr(worlds[0])


def test_parameters_are_the_tables() -> None:
    """A world's parameters are its user's row of the table."""
    table = load_table("robas3")
    for world in brushing_world(effects="population"):
        expected = brushing_step.pack_params(
            "robas3", w_b=table.w_b[world.user], w_p=table.w_p[world.user],
            first_weekend=int(table.first_weekend[world.user]),
            delta_b=table.effects.delta_b, delta_n=table.effects.delta_n,
        )  # fmt: skip
        for name, part in expected._asdict().items():
            np.testing.assert_array_equal(getattr(world.params, name), part)


def effects_of(worlds: list[BrushingWorld]) -> Floats:
    return np.array([[w.params.delta_b[0], w.params.delta_n[0]] for w in worlds])


def test_heterogeneous_effects_are_drawn_for_each_user() -> None:
    """They depend on seed and user alone, and follow N(Delta, sd^2) truncated at 0, b and n independently."""
    all_users = effects_of(brushing_world("robas2", users=32, seed=3))
    np.testing.assert_array_equal(effects_of(brushing_world("robas2", users=[30, 4], seed=3)), all_users[[30, 4]])
    assert (effects_of(brushing_world("robas2", users=32, seed=4)) != all_users).all()
    e = load_table("robas2").effects
    drawn = np.concatenate([effects_of(brushing_world("robas2", users=32, seed=s)) for s in range(40)])
    for values, mean, sd in zip(drawn.T, (e.delta_b, e.delta_n), (e.sd_b, e.sd_n), strict=True):
        law = stats.truncnorm(-mean / sd, np.inf, loc=mean, scale=sd)
        assert stats.kstest(values, law.cdf).pvalue > 0.01
        assert values.min() > 0.0
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.1


def test_small_effects() -> None:
    """ROBAS 2 has small effects, the same for everyone; ROBAS 3 has none and says so."""
    e = load_table("robas2").effects
    drawn = effects_of(brushing_world("robas2", effects="small"))
    assert (drawn == [e.small_b, e.small_n]).all()
    with pytest.raises(InputError, match="effects is 'small'; robas3 has no such effects"):
        brushing_world("robas3", effects="small")


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    """A table given as such or as a file takes the shipped one's place."""
    table = load_table("robas2")
    save_table(table, tmp_path / "mine.json")
    shipped, file, given = (brushing_world("robas2", users=3, table=t) for t in (None, tmp_path / "mine.json", table))
    for a, b, c in zip(shipped, file, given, strict=True):
        np.testing.assert_equal(a.numbers(), b.numbers())
        np.testing.assert_equal(a.numbers(), c.numbers())
    with pytest.raises(InputError, match="table is of study 'robas2'; expected 'robas3'"):
        brushing_world("robas3", table=table)


# What the agents know.


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("blind", ["unknown", "known"])
def test_constants_lie_where_the_layout_says(study: str, blind: str) -> None:
    """Constants have the layout's size; R, lam, hidden entries and known means are in their places."""
    world = brushing_world(study, users=[4], blind=blind)[0]
    problem = world.problem
    at = problem.layout()
    constants = problem.constants(at, 140)
    n = at.sizes
    assert (n.d, n.contexts, n.strata, n.corners, n.table) == ({"robas2": 9, "robas3": 11}[study], 0, 4, 4, 0)
    assert constants.size == at.length("constants")
    parts = at.views("constants", constants)
    knowledge = [parts.noise, parts.regularisation, parts.prior, parts.confidence, parts.delta, parts.horizon]
    assert [part[0] for part in knowledge] == [0.5, 1.0, 1.0, 2 * math.log(20), 0.05, 140]
    hidden = parts.hidden[: n.d].astype(bool)
    assert np.flatnonzero(hidden).tolist() == {"robas2": [1, 2, 6], "robas3": [1, 3, 7]}[study]
    start = parts.start[: 8 * n.d].reshape(4, 2, n.d)[..., hidden]
    if blind == "unknown":
        assert not start.any()
        return
    table = load_table(study)
    x = np.zeros((2, n.d))
    for stratum in range(4):
        brushing_step.features(world.params, 0, table.cell_prior[4, stratum], table.cell_prop[4, stratum], x)
        np.testing.assert_allclose(start[stratum], x[:, hidden], rtol=1e-15)


def test_what_the_agents_believe() -> None:
    """R and W are settings; lam is 1/W^2; gaps are divided by 1 in scale `range`."""
    problem = brushing_world(users=1, noise_sd=0.25, theta_bound=2.0)[0].informed_problem()
    assert (problem.noise_sd, problem.theta_bound, problem.regularisation) == (0.25, 2.0, 0.25)
    assert problem.value_range == (0.0, 1.0)
    assert problem.action_names == ("no message", "message")
    assert not problem.reported
    assert "4 strata, 2 actions, d=11" in repr(problem)


@pytest.mark.parametrize("study", STUDIES)
def test_theta_bound_covers_the_best_linear_fit(study: str) -> None:
    """On 5,600 sessions under coin flips, no user's linear fit of the reward is longer than W = 1."""
    worlds = brushing_world(study)
    data = run(worlds, COIN_FLIP, replicates=40)
    for i, world in enumerate(worlds):
        rows, rewards = [], []
        for r in range(40):
            one = data.isel(policy=0, world=i, replicate=r)
            rows.append(features_of(world, one["outcome"].values, one["action"].values))
            rewards.append(one["reward"].values)
        theta = np.linalg.lstsq(np.concatenate(rows), np.concatenate(rewards), rcond=None)[0]
        assert np.linalg.norm(theta) < 1.0


def features_of(world: BrushingWorld, outcome: Floats, action: NDArray[np.int16]) -> Floats:
    state, x = brushing_step.new_state(), np.zeros((2, world.problem.d))
    rows = []
    for t, (q, a) in enumerate(zip(outcome, action, strict=True)):
        brushing_step.arrive(world.params, state, t, x)
        rows.append(x[int(a)].copy())
        brushing_step.advance(state, t, q)
    return np.array(rows)


# What is refused.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"study": "robas4"}, "study is 'robas4'; expected one of 'robas2', 'robas3'; did you mean"),
        ({"effects": "big"}, "effects is 'big'; expected one of"),
        ({"blind": "unkown"}, "blind is 'unkown'.*did you mean 'unknown'"),
        ({"users": 0}, "users is 0; expected a whole number from 1 to 10"),
        ({"users": 11}, "users is 11; expected a whole number from 1 to 10"),
        ({"users": [13]}, "users is 13; expected a whole number from 0 to 12"),
        ({"users": []}, "users is empty"),
        ({"users": "all"}, "users is 'all'; expected how many, or a list of user numbers"),
        ({"users": 2.5}, "users is 2.5; expected how many, or a list of user numbers"),
        ({"message_cost": -1}, "message_cost is -1; expected a finite number >= 0"),
        ({"message_cost": math.inf}, "message_cost is inf"),
        ({"open_rate": 1.5}, "open_rate is 1.5; expected a finite number >= 0 and <= 1"),
        ({"response_rate": -0.1}, "response_rate is -0.1"),
        ({"seed": -1}, "seed is -1"),
        ({"noise_sd": 0}, "noise_sd is 0; expected a finite number > 0"),
        ({"theta_bound": -2}, "theta_bound is -2"),
        ({"table": "nowhere.json"}, "no table 'nowhere.json'"),
    ],
)
def test_bad_arguments(settings: dict[str, Any], message: str) -> None:
    """A bad argument is refused with what was given and what was expected."""
    with pytest.raises(InputError, match=message):
        brushing_world(**settings)


def test_bad_parts() -> None:
    """Known means must be given, parameters must be of the problem's study."""
    with pytest.raises(InputError, match="blind is 'known' without means"):
        brushing_problem("robas3", blind="known")
    with pytest.raises(InputError, match="means has 3 entries on axis 0; expected 2"):
        brushing_problem("robas3", blind="known", means=np.zeros((3, 4)))
    with pytest.raises(InputError, match="delta is 1"):
        brushing_problem("robas3", delta=1)
    params = brushing_world("robas2", users=1)[0].params
    with pytest.raises(InputError, match="params and problem are of different studies"):
        BrushingWorld(brushing_problem("robas3"), params=params)
    with pytest.raises(InputError, match=r"params is \[1, 2, 3\]; expected a user from pack_params"):
        BrushingWorld(brushing_problem("robas2"), params=[1, 2, 3])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="problem is 'robas3'; expected one from brushing_problem"):
        BrushingWorld("robas3", params=params)  # type: ignore[arg-type]


def test_policies_that_need_a_finite_problem_are_refused() -> None:
    """Scale `gap`, optimism and regret need what brushing has not; the two studies cannot be mixed."""
    worlds = brushing_world(users=1)
    with pytest.raises(InputError, match="scale 'gap' needs the truth"):
        run(worlds, op.pd2_ucb(30, scale="gap"))
    with pytest.raises(InputError, match="unknown='optimistic' needs finitely many contexts whose variables are"):
        run(worlds, op.pd2_ucb(30, unknown="optimistic"))
    with pytest.raises(InputError, match="worlds differ in kind"):
        run(worlds + brushing_world("robas2", users=1), op.pd2_ucb(30))
    with pytest.raises(InputError, match="regret needs the truth of a linear world"):
        op.regret(run(worlds, op.pd2_ucb(30)))
    with pytest.raises(InputError, match="action is 2"):
        run(worlds, op.Policy(recommender=op.FixedAction(action=2), revealer=op.Never()))
