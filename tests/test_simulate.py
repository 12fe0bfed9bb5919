"""`simulate` and its results: the same numbers however they are computed, totals, interruption, files, refusals."""

import errno
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import xarray as xr

from opportune.analysis.results import config, load, save
from opportune.errors import DataError, InputError, WriteError
from opportune.policy import Budget, Policy, naive_ucb, pd1_ucb, pd2_ucb
from opportune.problems.finite import Problem
from opportune.recommenders import EqualCoins, FixedAction
from opportune.revealers import Always, Never, Periodic
from opportune.simulation import cpu, simulate
from opportune.simulation import run as api
from opportune.worlds.linear import LinearWorld, synthetic_worlds

HORIZON = 40
POLICIES = [
    naive_ucb(6),
    pd1_ucb(6, scale="range"),
    pd2_ucb(6),
    pd2_ucb(Budget(6, hard=True), name="PD2 hard"),
    pd2_ucb(Budget(15, shared=True), name="PD2 shared"),
    Policy(recommender=EqualCoins(), revealer=Periodic(every=9), name="chance"),
]


def lively(n: int, *, known: bool = True) -> list[LinearWorld]:
    """Synthetic worlds whose patients open the app at times and leave some nudges unanswered."""
    return [world.replace(open_rate=0.05, response_rate=0.8) for world in synthetic_worlds(n, seed=1, known=known)]


def run(worlds: Any = None, policies: Any = None, **changes: Any) -> xr.Dataset:
    settings: dict[str, Any] = {"horizon": HORIZON, "replicates": 7, "seed": 3, "progress": False}
    return simulate(lively(3) if worlds is None else worlds, policies or POLICIES, **(settings | changes))


def assert_same(first: xr.Dataset, second: xr.Dataset) -> None:
    """Equal in every number, bit for bit, and in every label."""
    assert set(first.variables) == set(second.variables)
    for name in first.variables:
        assert first[name].dims == second[name].dims
        np.testing.assert_array_equal(first[name].values, second[name].values, err_msg=str(name))


@pytest.fixture
def threads() -> Iterator[None]:
    """Puts the number of threads back."""
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


# The same numbers, however they are computed.


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("known", [True, False])
def test_threads_do_not_matter(known: bool) -> None:
    """One thread and two give the same numbers, bit for bit."""
    policies = [*POLICIES, *([] if known else [pd2_ucb(6, unknown="optimistic", name="optimistic")])]
    results = []
    for number in (1, 2):
        numba.set_num_threads(number)
        results.append(run(lively(3, known=known), policies))
    assert_same(*results)


@pytest.mark.parametrize("trace", [True, False])
def test_chunks_do_not_matter(trace: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any size of chunk gives the same numbers, bit for bit, and so does repeating the call."""
    whole = run(trace=trace)
    assert_same(run(trace=trace), whole)
    per_replicate = HORIZON * len(POLICIES) * 3
    for steps in (1, 2 * per_replicate, 5 * per_replicate):
        monkeypatch.setattr(api, "CHUNK_STEPS", steps)
        assert_same(run(trace=trace), whole)


def test_more_replicates_or_worlds_change_nothing() -> None:
    """A run does not depend on how many others there are, nor on the other policies."""
    alone = [policy for policy in POLICIES if not policy.shared]
    whole = run(policies=alone)
    assert_same(run(policies=alone, replicates=11).isel(replicate=slice(7)), whole)
    assert_same(run(lively(5), alone).isel(world=slice(3)), whole)
    for i, policy in enumerate(alone):
        beside = whole.isel(policy=[i])
        if not policy.randomised:  # how actions were drawn is told of all policies if any draws them
            beside = beside.drop_vars(["action_probability", "action_draw", "intended_action"])
        assert_same(run(policies=policy), beside)
    assert_same(run(policies=alone[::-1]).isel(policy=slice(None, None, -1)), whole)


def test_a_longer_horizon_starts_alike() -> None:
    """Rules that do not look at the horizon make the same first steps whatever it is."""
    policies = [pd1_ucb(6), pd2_ucb(6), Policy(revealer=Periodic(every=4))]
    longer = run(policies=policies, horizon=HORIZON + 25)
    for name, values in run(policies=policies).data_vars.items():
        if "step" in values.dims:
            np.testing.assert_array_equal(longer[name].isel(step=slice(HORIZON)).values, values.values)


def test_seed_and_replicate_matter() -> None:
    """Another seed, and another replicate, is another run."""
    first = run()["reward"].values
    other = run(seed=4)["reward"].values
    assert not np.isclose(first, other).all(axis=-1).any()
    assert len(np.unique(first[0, 0, :, 0])) == 7


def test_every_policy_meets_the_same_arrivals() -> None:
    """Contexts and openings are the same for every policy, and noise too: rewards differ by their means alone."""
    data = run(policies=[policy for policy in POLICIES if not policy.shared])
    for name in ("context", "opened"):
        values = data[name].values
        assert (values == values[:1]).all()
        assert len(np.unique(values)) > 1
    noise = (data["reward"] - data["outcome"]).values
    np.testing.assert_allclose(noise, np.broadcast_to(noise[:1], noise.shape), atol=1e-13)
    assert 0.08 < noise[0].std() < 0.12


def test_contexts_come_as_often_as_counted() -> None:
    """`context_count` is how often each context arrived."""
    data = run()
    for k in range(10):
        np.testing.assert_array_equal(
            (data["context"][0] == k).sum("step").values, data["context_count"][..., k].values
        )


# Totals and trace.


def test_totals_are_the_sums_of_the_trace() -> None:
    """Without a trace the totals are those of the trace, summed in the same order: bit for bit."""
    data, totals = run(), run(trace=False)
    assert "step" not in totals.dims
    pairs = {
        "total_reward": "reward", "total_value": "value", "total_outcome": "outcome", "spent": "probability",
        "nudges": "nudged", "reveals": "revealed", "opens": "opened",
    }  # fmt: skip
    for total, step in pairs.items():
        np.testing.assert_array_equal(totals[total].values, data[total].values)
        in_order = np.add.accumulate(data[step].values.astype(np.float64), axis=-1)[..., -1]
        np.testing.assert_array_equal(totals[total].values, in_order)
    shared = [set(d.data_vars) for d in (totals, data)]
    assert shared[0] < shared[1]


def test_steps_fit_together() -> None:
    """At every step: a nudge only where it had a chance, a reveal by opening or an answered nudge, stale otherwise."""
    data = run()
    nudged, opened, revealed = (data[name].values for name in ("nudged", "opened", "revealed"))
    assert (data["probability"].values[nudged] > 0.0).all()
    assert (revealed <= (opened | nudged)).all()
    assert revealed[opened].all()
    assert (nudged & ~revealed).any()
    assert not (nudged & opened).any()
    assert (data["probability"].values[opened] == 0.0).all()
    bandit = data.sel(policy=[p.name for p in POLICIES if p.name != "chance"])
    stale = ~bandit["revealed"].values
    assert (bandit["action"].values == bandit["stale_action"].values)[stale].all()


def test_values_and_outcomes_are_the_worlds() -> None:
    """An outcome is the action's mean in the context; a value is the same on a reveal, else averaged over contexts."""
    worlds = lively(3)
    data = run(worlds)
    for w, world in enumerate(worlds):
        part = data.isel(world=w)
        context, action = part["context"].values, part["action"].values
        outcome = world.values[context, action]
        np.testing.assert_array_equal(part["outcome"].values, outcome)
        blind = world.blind_values[0][action]
        np.testing.assert_array_equal(part["value"].values, np.where(part["revealed"].values, outcome, blind))


@pytest.mark.parametrize("budget", [Budget(5), Budget(5, hard=True), Budget(4.5)], ids=repr)
def test_no_run_exceeds_its_budget(budget: Budget) -> None:
    """Probabilities sum to at most the budget; with a hard one there are no more nudges than that, either."""
    revealers = [naive_ucb(budget), pd1_ucb(budget), pd2_ucb(budget), Policy(revealer=Always(), budget=budget)]
    data = run(policies=revealers, replicates=40, trace=False)
    assert float(data["spent"].max()) <= budget.amount + 1e-9
    assert float(data["spent"].sel(policy="always").min()) == budget.amount
    most = int(data["nudges"].max())
    if budget.hard:
        assert most == 5
    else:
        assert most > 5  # expected: some runs are lucky


@pytest.mark.parametrize("hard", [False, True])
def test_a_shared_budget_is_for_all(hard: bool) -> None:
    """Participants of a shared budget spend no more than it together; a hard one has no nudge beyond it."""
    budget = Budget(12, shared=True, hard=hard)
    policies = [naive_ucb(budget), pd1_ucb(budget), pd2_ucb(budget), Policy(revealer=Always(), budget=budget)]
    data = run(lively(8), policies, replicates=30, trace=False)
    spent, nudges = data["spent"].sum("world"), data["nudges"].sum("world")
    assert float(spent.max()) <= 12.0 + 1e-9
    assert float(spent.mean()) > 6.0
    assert (int(nudges.max()) <= 12) == hard
    assert len(np.unique(data["final_price"].sel(policy="PD2").values[:, 0])) == 1


# Cost.


def test_memory_does_not_grow_with_the_horizon() -> None:
    """Without a trace a run of 20,000 steps takes the memory of one of 1,000."""
    world, policy = synthetic_worlds(1, seed=1)[0], pd2_ucb(10)
    peaks = []
    for horizon in (1_000, 20_000):
        tracemalloc.start()
        run(world, policy, horizon=horizon, replicates=20, trace=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] <= 1.1 * peaks[0]


def test_time_is_linear_in_the_horizon() -> None:
    """Ten times the steps take no more than thirty times the time: nothing is recomputed from the start."""
    world, policy = synthetic_worlds(1, seed=1)[0], pd2_ucb(10)

    def seconds(horizon: int) -> float:
        began = time.process_time()
        run(world, policy, horizon=horizon, replicates=8, trace=False)
        return time.process_time() - began

    seconds(100)
    short, long = (min(seconds(horizon) for _ in range(3)) for horizon in (8_000, 80_000))
    assert long < 30.0 * short


# Interruption.


class Interrupting:
    """Runs policies until Ctrl-C is pressed while these run from a replicate on."""

    def __init__(self, replicate: int, policies: Callable[[cpu.Task], bool] = lambda task: True) -> None:
        self.replicate = replicate
        self.policies = policies
        self.run = cpu.run_batch

    def __call__(self, batch: Any, at: Any, task: cpu.Task, streams: Any, *others: Any) -> None:
        """Run a chunk, or press Ctrl-C."""
        if streams[0, 0] >= self.replicate and self.policies(task):  # the first world's streams are the replicates
            raise KeyboardInterrupt
        self.run(batch, at, task, streams, *others)


@pytest.mark.parametrize("trace", [True, False])
def test_interrupted_run_returns_what_is_finished(trace: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """To who asks for it, Ctrl-C gives the finished replicates, equal to those of a whole run, and says so."""
    policies = [policy for policy in POLICIES if not policy.shared]
    whole = run(policies=policies, trace=trace)
    monkeypatch.setattr(api, "CHUNK_STEPS", 2 * HORIZON * len(policies) * 3)
    monkeypatch.setattr(api, "run_batch", Interrupting(4))
    with pytest.warns(RuntimeWarning, match="^interrupted: 4 of 7 replicates are finished and returned$") as caught:
        part = run(policies=policies, trace=trace, on_interrupt="return")
    assert part.attrs["interrupted"] == 1
    assert whole.attrs["interrupted"] == 0
    assert part.sizes["replicate"] == 4
    assert_same(part, whole.isel(replicate=slice(4)))
    assert len(caught) == 1


def test_replicates_count_once_every_policy_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replicate that some policies have finished and others not is not returned."""
    whole = run()
    monkeypatch.setattr(api, "CHUNK_STEPS", 2 * HORIZON * len(POLICIES) * 3)
    monkeypatch.setattr(api, "run_batch", Interrupting(2, lambda task: task.shared))
    with pytest.warns(RuntimeWarning, match="^interrupted: 2 of 7 "):
        part = run(on_interrupt="return")
    assert_same(part, whole.isel(replicate=slice(2)))


def test_interrupted_before_anything_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C before the first replicate is finished is Ctrl-C."""
    monkeypatch.setattr(api, "run_batch", Interrupting(0))
    with pytest.raises(KeyboardInterrupt):
        run(on_interrupt="return")


def test_an_interrupt_ends_who_did_not_ask_for_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle is KeyboardInterrupt, though replicates are finished: nobody takes a part for the whole."""
    monkeypatch.setattr(api, "CHUNK_STEPS", 1)
    monkeypatch.setattr(api, "run_batch", Interrupting(5))
    with pytest.raises(KeyboardInterrupt):
        run()
    with pytest.raises(InputError, match=r"^on_interrupt is 'keep'; expected one of 'raise', 'return'$"):
        run(on_interrupt="keep")


# Labels.


def test_labels_tell_policies_apart() -> None:
    """Names that repeat get what tells them apart: budget, scale, kind of budget."""
    policies = [
        naive_ucb(3),
        naive_ucb(6),
        pd2_ucb(6),
        pd2_ucb(6, scale="range"),
        pd1_ucb(6),
        pd1_ucb(Budget(6, hard=True)),
        Policy(revealer=Never(), recommender=FixedAction(action=1), name="mine"),
    ]
    labels = ["naive B=3", "naive B=6", "PD2 adaptive", "PD2 range", "PD1", "PD1 hard", "mine"]
    data = run(policies=policies)
    assert data["policy"].values.tolist() == labels
    assert data["budget"].values.tolist() == [3.0, 6.0, 6.0, 6.0, 6.0, 6.0, np.inf]


def test_labels_that_cannot_be_told_apart() -> None:
    """Policies that differ in nothing visible must be given names."""
    message = "two policies are called 'PD2'; expected different names (name=...)"
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        run(policies=[pd2_ucb(6), pd2_ucb(6)])


def test_dataset_describes_itself() -> None:
    """A Dataset says with what it was made: configuration, seed, horizon, device, version, and what each name means."""
    worlds = [world.replace(name=name) for world, name in zip(lively(2), ("first", ""), strict=True)]
    data = run(worlds, [pd2_ucb(6), naive_ucb(6)], seed=2**64 - 1)
    settings = config(data)
    assert settings["policies"] == [pd2_ucb(6).describe(), naive_ucb(6).describe()]
    assert (settings["seed"], settings["replicates"], settings["horizon"], settings["worlds"]) == (
        2**64 - 1,
        7,
        HORIZON,
        2,
    )
    assert data.attrs["seed"] == str(2**64 - 1)
    assert data.attrs["device"] == "cpu"
    assert data.attrs["seconds"] > 0.0
    assert data["world_name"].values.tolist() == ["first", "world 1"]
    assert data["step"].values.tolist() == list(range(1, HORIZON + 1))
    undescribed = {name for name in data.data_vars if "long_name" not in data[name].attrs}
    assert undescribed <= {"value_range", "context_probs", "theta"}


# What is refused.


def sized(contexts: int, **settings: Any) -> LinearWorld:
    rng = np.random.default_rng(1)
    problem = Problem(rng.normal(size=(contexts, 2, 3)), np.full(contexts, 1 / contexts), **settings)
    return LinearWorld(problem, theta=rng.normal(size=3))


ALIKE = (
    "worlds differ in kind, sizes, visibility or in whether probabilities are known; "
    "expected worlds of one kind in one call of simulate"
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"worlds": []}, "worlds is empty; expected at least one world"),
        ({"worlds": [None]}, "worlds holds None; expected worlds such as LinearWorld"),
        ({"worlds": [sized(4), sized(5)]}, ALIKE),
        ({"worlds": [sized(4), sized(4, visibility={"context": "public"})]}, ALIKE),
        ({"worlds": [*synthetic_worlds(1, seed=1), *synthetic_worlds(1, seed=1, known=False)]}, ALIKE),
        ({"policies": [pd2_ucb(6, scale="range")], "worlds": sized(4)},
         "scale 'range' needs value_range=(u_min, u_max) in the problem; or use scale='adaptive'"),
        ({"policies": pd2_ucb(41)}, "budget is 41; expected at most 40, the number of decisions it is for"),
        ({"horizon": 0}, "horizon is 0; expected a whole number from 1 to 10000000"),
        ({"horizon": 10.0}, "horizon is 10.0; expected a whole number from 1 to 10000000"),
        ({"replicates": 0}, f"replicates is 0; expected a whole number from 1 to {2**32 - 1}"),
        ({"seed": -1}, f"seed is -1; expected a whole number from 0 to {2**64 - 1}"),
        ({"seed": None}, f"seed is None; expected a whole number from 0 to {2**64 - 1}"),
        ({"device": "gpu"}, "device is 'gpu'; expected one of 'cpu', 'cuda', 'auto'"),
        ({"device": "CUDA"}, "device is 'CUDA'; expected one of 'cpu', 'cuda', 'auto'"),
    ],
)  # fmt: skip
def test_wrong_calls(changes: dict[str, Any], message: str) -> None:
    """A call that cannot be run is refused before anything runs."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        run(**({"worlds": lively(1), "policies": pd2_ucb(6)} | changes))


def test_no_policies() -> None:
    """An empty list of policies is refused."""
    with pytest.raises(InputError, match=r"^policies is empty; expected at least one policy$"):
        simulate(lively(1), [], horizon=10, replicates=1, seed=1)


@pytest.mark.parametrize("policies", [["PD2"], [naive_ucb(3), "PD2"], "PD2"], ids=["list", "second", "text"])
def test_wrong_policies(policies: Any) -> None:
    """What is no policy is refused as such."""
    with pytest.raises(
        InputError, match=r"^policies (holds|is) 'PD2'; expected (a )?Policy, such as pd2_ucb\(budget=10\)"
    ):
        simulate(lively(1), policies, horizon=10, replicates=1, seed=1)


# Files.


def test_results_round_trip(tmp_path: Path) -> None:
    """Saved and loaded, results are the same: every number, type, label and attribute."""
    for trace in (True, False):
        data = run(policies=[*POLICIES, Policy(revealer=Never())], trace=trace)
        path = save(data, tmp_path / "deep" / f"{trace}.nc")
        again = load(path)
        assert_same(again, data)
        xr.testing.assert_identical(again, data)
        assert again.attrs == data.attrs
        for name in data.data_vars:
            assert again[name].dtype == data[name].dtype, name
        assert config(again) == config(data)
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["False.nc", "True.nc"]


def test_saving_replaces_a_file_only_when_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If writing fails, the file of before stands and nothing else is left behind."""
    path = save(run(), tmp_path / "results.nc")
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(WriteError, match=r"results\.nc cannot be written: the disk is full$"):
        save(run(seed=9), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_saving_leaves_the_data_alone(tmp_path: Path) -> None:
    """Saving does not change the Dataset it was given."""
    data = run()
    copy = data.copy(deep=True)
    save(data, tmp_path / "results.nc")
    xr.testing.assert_identical(data, copy)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    """What `save` did not write is not loaded: missing, text, another program's NetCDF, another format."""
    missing, text, foreign, newer = (tmp_path / f"{name}.nc" for name in ("missing", "text", "foreign", "newer"))
    text.write_text("policy,regret\n")
    xr.Dataset({"x": ("t", [1.0])}).to_netcdf(foreign, engine="h5netcdf")
    newer.write_text(f"\nopportune results 9 sha256 {64 * '0'}\n")
    messages = {
        missing: f"{missing} does not exist; expected a results file",
        tmp_path: f"{tmp_path} is a folder; expected a results file",
        text: f"{text} does not end in a checksum: it was not written by `save`, or it was truncated or changed since",
        foreign: f"{foreign} does not end in a checksum: it was not written by `save`",
        newer: f"{newer} has results format 9; this version reads format 3: load it with the version",
    }
    for path, message in messages.items():
        with pytest.raises(DataError, match="^" + re.escape(message)):
            load(path)


def test_results_have_their_own_ending(tmp_path: Path) -> None:
    """A file name that does not end in .nc is refused before anything is written."""
    with pytest.raises(InputError, match=r"^path is '.*results\.csv'; expected a name that ends in \.nc$"):
        save(run(), tmp_path / "results.csv")
    assert not list(tmp_path.iterdir())
