"""Fitting users to data: the fit, the effects and stratum means that follow, and the shipped tables."""

import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from test_likelihood import independent_log_posterior

from opportune.algorithm import rng
from opportune.errors import DataError
from opportune.worlds.brushing import fitting, step
from opportune.worlds.brushing.data import BrushingData, load_robas2, load_robas3
from opportune.worlds.brushing.fitting import fit_brushing
from opportune.worlds.brushing.strata import stratum_means
from opportune.worlds.brushing.table import BrushingTable, Effects, load_table

Array = NDArray[np.float64]
STUDIES = ("robas2", "robas3")
FILES: dict[str, tuple[str, Callable[[Path], BrushingData]]] = {
    "robas2": ("robas_2_data.csv", load_robas2),
    "robas3": ("robas_3_data.csv", load_robas3),
}
NUMBERS = ("w_b", "w_p", "log_posterior", "cell_prior", "cell_prop")
FACTS = ("first_weekend", "sessions", "converged", "starts_agree")


@pytest.fixture(scope="module", params=STUDIES)
def data(request: pytest.FixtureRequest) -> BrushingData:
    """A study's raw data, which is not part of this repository."""
    name, load = FILES[request.param]
    folder = Path(os.environ.get("OPPORTUNE_DATA", Path(__file__).parents[4] / "shared" / "data"))
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not here; set OPPORTUNE_DATA to its folder")
    return load(folder / name)


@pytest.fixture(params=STUDIES)
def shipped(request: pytest.FixtureRequest) -> BrushingTable:
    """A shipped table."""
    return load_table(str(request.param))


@njit
def _course(params, stream, state, x, y):  # type: ignore[no-untyped-def]
    """Simulate one course without messages into y."""
    for t in range(y.size):
        step.arrive(params, state, t, x)
        u_zero, u_poisson = rng.draw(11, stream, t, rng.ZERO), rng.draw(11, stream, t, rng.NOISE)
        y[t] = step.outcome(params, x, 0, u_zero, u_poisson)
        step.advance(state, t, y[t])


def course(params: step.Settings, stream: int, sessions: int) -> Array:
    """The outcomes of one simulated course without messages."""
    y = np.zeros(sessions)
    _course(params, stream, step.new_state(), np.zeros((2, 11)), y)
    return y


def made_up_data(study: str, outcomes: list[Array]) -> BrushingData:
    """Outcomes as the loader would give them, with the first weekend at session 4."""
    t = np.concatenate([np.arange(y.size) for y in outcomes])
    prop = [np.mean(y[k - 14 : k] > 0) if k >= 14 else 0.0 for y in outcomes for k in range(y.size)]
    return BrushingData(
        study=study,
        source="made_up.csv",
        sha256="0" * 64,
        user=np.repeat(np.arange(len(outcomes)), [y.size for y in outcomes]),
        t=t,
        day=t // 2 + 1,
        tod=t % 2,
        weekend=((t >= 4) & ((t - 4) % 14 < 4)).astype(np.int64),
        prop=np.array(prop),
        y=np.concatenate(outcomes).astype(np.int64),
    )


def small_data() -> BrushingData:
    """Two made-up users of two and four weeks."""
    params = step.pack_params("robas3", w_b=[0.5, -0.3, 0.2, -0.4, 0.1, -0.6], w_p=[0.1] * 5 + [4.0], first_weekend=4)
    return made_up_data("robas3", [course(params, 1, 28), course(params, 2, 56)])


def assert_same_effects(found: Effects, expected: Effects) -> None:
    """Two sets of effects agree to 1e-6, small ones included where a study has them."""
    a, b = found.model_dump(exclude_none=True), expected.model_dump(exclude_none=True)
    assert a == pytest.approx(b, rel=0, abs=1e-6)


def test_design_by_hand() -> None:
    """Fitting rows: prior 0 on day 1, then yesterday's total scaled by the file's own mean and sd."""
    y = np.array([10.0, 30, 0, 20, 50, 0, 7, 9])
    data = made_up_data("robas3", [y[:4], y[4:]])
    totals = np.array([40.0, 20.0, 50.0, 16.0])
    g = fitting.design(data)
    first, second = (totals[[0, 2]] - totals.mean()) / totals.std()
    assert g[:, 1] == pytest.approx([0, 0, first, first, 0, 0, second, second])
    assert g[:, 2].tolist() == [-1, -1, 1, 1, -1, -1, 1, 1]  # each user's own days, from -1 to 1
    g = fitting.design(made_up_data("robas2", [y[:4], y[4:]]))
    assert g.shape == (8, 5)
    first, second = (totals[[0, 2]] - 172) / 118
    assert g[:, 1] == pytest.approx([0, 0, first, first, 0, 0, second, second])


def test_fit_recovers_a_simulated_user() -> None:
    """Fitted to a long simulated course, the weights come near those that made it."""
    w_b = np.array([0.6, -0.4, 0.5, 0.3, -0.7])
    w_p = np.array([0.1, 0.15, -0.2, -0.1, 4.2])
    params = step.pack_params("robas2", w_b=w_b, w_p=w_p, first_weekend=4)
    table = fit_brushing(made_up_data("robas2", [course(params, 0, 4000)]))
    assert table.converged.all()
    assert table.starts_agree.all()
    np.testing.assert_allclose(table.w_p[0], w_p, atol=0.05)
    np.testing.assert_allclose(table.w_b[0], w_b, atol=0.35)


def test_fit_of_made_up_users() -> None:
    """A fit reports progress, counts sessions, finds the first weekend, and is repeated to the last digit."""
    seen: list[tuple[int, int]] = []
    when = datetime.date(2020, 1, 2)
    table = fit_brushing(small_data(), progress=lambda done, users: seen.append((done, users)), date=when)
    assert seen == [(1, 2), (2, 2)]
    assert table.users == 2
    assert table.sessions.tolist() == [28, 56]
    assert table.first_weekend.tolist() == [4, 4]
    assert table.converged.all()
    assert table.starts_agree.all()
    assert (table.provenance.source, table.provenance.date) == ("made_up.csv", "2020-01-02")
    again = fit_brushing(small_data(), date=when)
    for name in NUMBERS + FACTS:
        np.testing.assert_array_equal(getattr(again, name), getattr(table, name))


def test_fit_says_so_when_starts_part_or_stop_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts that end apart, and a gradient that is not near zero, are recorded as such."""
    source = np.random.default_rng(0)
    monkeypatch.setattr(fitting, "_polish", lambda weights, g, y: weights + 1e-3 * source.normal(size=12))
    table = fit_brushing(small_data())
    assert not table.converged.any()
    assert not table.starts_agree.any()
    assert (table.gradient_norm > 1e-6).all()


def test_fit_refuses_data_it_cannot_use() -> None:
    """A user without a weekend, and a file without variation, are refused with the reason."""
    with pytest.raises(DataError, match="user 0 has no weekend session among 4"):
        fit_brushing(made_up_data("robas2", [np.array([1.0, 2, 3, 4])]))
    with pytest.raises(DataError, match="every day of the file has the same outcome"):
        fit_brushing(made_up_data("robas3", [np.ones(20)]))


def test_effects_by_hand() -> None:
    """Effects average absolute weights over tod, prior, prop and weekend, and leave day and bias out."""
    w_b = np.array([[1.0, -2, 50, 3, -4, 60], [3.0, 0, 50, -1, 0, 60]])
    found = fitting.effects("robas3", w_b, 0.1 * w_b)
    assert (found.delta_b, found.delta_n) == pytest.approx((1.75, 0.175))
    assert (found.sd_b, found.sd_n) == pytest.approx((0.75, 0.075))  # users average 2.5 and 1
    assert (found.small_b, found.small_n) == (None, None)
    found = fitting.effects("robas2", np.delete(w_b, 2, axis=1), 0.1 * np.delete(w_b, 2, axis=1))
    assert found.delta_b == pytest.approx(1.75)
    assert (found.small_b, found.small_n) == pytest.approx((0.5, 0.05))  # the smallest mean is prior's, 1


def test_stratum_means_by_hand() -> None:
    """A user who always brushes past the cap has the stratum means that arithmetic gives."""
    params = step.pack_params("robas2", w_b=[0, 0, 0, 0, -800.0], w_p=[0, 0, 0, 0, 20.0], first_weekend=0)
    prior, prop = stratum_means(params, stream=0, replicates=3)
    low, high = -172 / 118, (360 - 172) / 118
    # 50 weekday sessions and 20 weekend sessions at either time of day; day 1 is a weekend day
    assert prior == pytest.approx([high, high, high + (low - high) / 20, high + (low - high) / 20])
    # sessions 0..13 have prop 0: weekend mornings 0, 2; evenings 1, 3; weekday mornings 4, 6, 8, 10, 12
    assert prop == pytest.approx([45 / 50, 45 / 50, 18 / 20, 18 / 20])


def test_shipped_table_is_whole(shipped: BrushingTable) -> None:
    """A shipped table holds converged fits from agreeing starts, and effects that follow from its weights."""
    users = {"robas2": 32, "robas3": 13}[shipped.study]
    width = len(step.feature_names(shipped.study))
    assert shipped.w_b.shape == shipped.w_p.shape == (users, width)
    assert shipped.cell_prior.shape == shipped.cell_prop.shape == (users, 4)
    assert shipped.converged.all()
    assert shipped.starts_agree.all()
    assert (shipped.gradient_norm < 1e-6).all()
    assert (shipped.first_weekend <= 10).all()
    assert shipped.sessions.sum() == {"robas2": 1792, "robas3": 2188}[shipped.study]
    assert ((shipped.cell_prop >= 0) & (shipped.cell_prop <= 1)).all()
    assert_same_effects(fitting.effects(shipped.study, shipped.w_b, shipped.w_p), shipped.effects)


def test_ten_users_of_the_experiment(shipped: BrushingTable) -> None:
    """Ten users of ROBAS 3 have at least 140 sessions; those of ROBAS 2 have 56 each."""
    expected = {"robas2": 0, "robas3": 10}[shipped.study]
    assert (shipped.sessions >= 140).sum() == expected


def test_shipped_table_names_nobody(shipped: BrushingTable) -> None:
    """A shipped table numbers its users and says where it comes from, without names or folders."""
    text = (Path(fitting.__file__).parent / "tables" / f"{shipped.study}.json").read_text(encoding="utf-8")
    assert [entry["user"] for entry in json.loads(text)["users"]] == list(range(shipped.users))
    assert "P2_" not in text
    assert "robas+" not in text
    source = shipped.provenance
    assert source.source == FILES[shipped.study][0]
    assert len(source.sha256) == 64
    datetime.date.fromisoformat(source.date)


def test_shipped_table_equals_a_refit(data: BrushingData) -> None:
    """Where the data file is present, fitting it again gives the shipped table to 1e-6."""
    table, refit = load_table(data.study), fit_brushing(data)
    assert table.provenance.sha256 == data.sha256
    for name in NUMBERS:
        np.testing.assert_allclose(getattr(refit, name), getattr(table, name), rtol=0, atol=1e-6)
    for name in FACTS:
        np.testing.assert_array_equal(getattr(refit, name), getattr(table, name))
    assert (refit.gradient_norm < 1e-6).all()
    assert_same_effects(refit.effects, table.effects)


def test_shipped_weights_beat_their_neighbours(data: BrushingData) -> None:
    """No small change of a user's weights raises the log posterior, computed independently."""
    table, g = load_table(data.study), fitting.design(data)
    source = np.random.default_rng(1)
    for user in range(0, data.users, 4):
        rows, y = data.user == user, data.y[data.user == user].astype(np.float64)
        weights = np.concatenate((table.w_b[user], table.w_p[user]))
        best = independent_log_posterior(weights, g[rows], y)
        assert best == pytest.approx(table.log_posterior[user], rel=1e-12)
        for nudge in source.normal(size=(20, weights.size)):
            assert independent_log_posterior(weights + 1e-3 * nudge, g[rows], y) < best


def test_step_functions_give_the_rows_of_the_fit(data: BrushingData) -> None:
    """Fed the file's outcomes, the step functions give the fit's rows, day 1's prior apart."""
    g = fitting.design(data)
    table = load_table(data.study)
    totals = data.y[0::2] + data.y[1::2]
    scale = (totals.mean(), totals.std()) if data.study == "robas3" else None
    width = g.shape[1]
    x = np.zeros((2, 2 * width - 1))
    for user in range(data.users):
        rows = np.flatnonzero(data.user == user)
        params = step.pack_params(
            data.study,
            w_b=table.w_b[user],
            w_p=table.w_p[user],
            first_weekend=int(table.first_weekend[user]),
            days=rows.size // 2,
            scale=scale,
        )
        state = step.new_state()
        for t, row in enumerate(rows):
            step.arrive(params, state, t, x)
            if t < 2:
                x[0, 1] = 0.0
            np.testing.assert_allclose(x[0, :width], g[row], rtol=0, atol=1e-12)
            step.advance(state, t, float(data.y[row]))


def test_simulation_comes_near_the_observed(data: BrushingData) -> None:
    """Without messages, simulated users brush about as long and as often as the real ones did.

    Like with like: the user's own number of sessions and days, and the observed outcome capped too.
    """
    table = load_table(data.study)
    gaps, zero_gaps = [], []
    for user in range(data.users):
        y = np.minimum(data.y[data.user == user], 180)
        params = step.pack_params(
            data.study,
            w_b=table.w_b[user],
            w_p=table.w_p[user],
            first_weekend=int(table.first_weekend[user]),
            days=y.size // 2,
        )
        simulated = np.array([course(params, stream, y.size) for stream in range(400)])
        gaps.append(abs(simulated.mean() - y.mean()))
        zero_gaps.append(abs((simulated == 0).mean() - (y == 0).mean()))
    assert np.median(gaps) < 5.0
    assert np.median(zero_gaps) < 0.03
