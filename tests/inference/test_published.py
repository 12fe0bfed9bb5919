"""Published numbers, to all their digits, from the data they were published with where these are found.

Data are looked for beside the checkout, in shared/data/analysis; frames that can be made as code are always tried.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from records import R
from scipy.special import expit

from opportune.inference import Estimates, adaptive_sandwich, dcee, emee, wcls

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "analysis"
STEPS: dict[str, Any] = {
    "outcome": "jbsteps30.log", "treatment": "send", "probability": 0.6, "participant": "user", "available": "avail",
    "controls": "jbsteps30pre.log", "q": 0.6,
}  # fmt: skip
MIMIC: dict[str, Any] = {
    "outcome": "logstep_30min", "treatment": "intervention", "probability": 0.6, "participant": "userid",
    "available": "avail", "controls": "logstep_pre30min",
}  # fmt: skip
BINARY: dict[str, Any] = {
    "outcome": "Y", "treatment": "A", "probability": "rand_prob", "participant": "userid", "available": "avail",
    "controls": "time_var1 + time_var2",
}  # fmt: skip
DISTAL: dict[str, Any] = {
    "outcome": "Y", "treatment": "A", "probability": "prob_A", "participant": "userid", "available": "avail",
}  # fmt: skip


def close(value: Any, *expected: Any) -> None:
    """Equal to all the digits that were given, as text."""
    for one, text in zip(np.ravel(value), expected, strict=True):
        assert f"{one:.{len(text.split('.')[1])}f}" == text


def heartsteps() -> None:
    """Qian et al. 2022: the effect of an activity suggestion on steps in the next half hour."""
    found = wcls(pd.read_csv(DATA / "HS1_cleaned.csv"), **STEPS)
    close([found.estimate[-1], found.se[-1], *found.interval[-1]], "0.13120", "0.06739", "-0.00576", "0.26815")
    close(found.p[-1], "0.0599")
    assert (found.df, found.participants) == (34, 37)


def heartsteps_lag() -> None:
    """The same trial over three decision points: windows do not reach across a gap in the record."""
    found = wcls(pd.read_csv(DATA / "HS1_cleaned.csv"), lag=3, time="decision.index.nogap", **STEPS)
    close([found.estimate[-1], found.se[-1]], "0.0701127", "0.0491711")


def mimic() -> None:
    """MRTAnalysis: the marginal effect with q = 0.5 and with q = p."""
    frame = pd.read_csv(DATA / "data_mimicHeartSteps.csv")
    half, same = wcls(frame, q=0.5, **MIMIC), wcls(frame, q=0.6, **MIMIC)
    close([half.estimate[-1], half.se[-1]], "0.1574473", "0.0622193")
    close(same.estimate, "2.0115176", "0.3395683", "0.1574444")
    assert half.df == 34


def mimic_moderated() -> None:
    """MRTAnalysis' vignette: by location, and the combination at home, tested as one thing and not as two."""
    controls = "logstep_pre30min + logstep_30min_lag1 + is_at_home_or_work"
    changed = {**MIMIC, "controls": controls, "moderators": "is_at_home_or_work"}
    frame = pd.read_csv(DATA / "data_mimicHeartSteps.csv")
    found = wcls(frame, q=0.5, **changed)
    close([found.estimate[-2], *found.interval[-2], found.p[-2]], "0.109", "-0.029", "0.247", "0.117")
    close([found.estimate[-1], found.interval[-1, 0], found.p[-1]], "0.135", "-0.166", "0.368")
    assert found.interval[-1, 1] == pytest.approx(0.435, abs=1e-3)  # 0.43564, printed as 0.435
    home = found.combination([1, 1])
    close([home.estimate, *home.interval], "0.244", "-0.013", "0.501")


def binary() -> None:
    """MRTAnalysis: relative risks by time, with plain and corrected standard errors."""
    frame = pd.read_csv(DATA / "data_binary.csv")
    found = emee(frame, moderators="time_var1", q=0.5, **BINARY)
    close(found.estimate[-2:], "0.08114495", "0.42931332")
    close(found.plain_se[-2:], "0.1301265", "0.1882975")
    close(found.se[-2:], "0.1316436", "0.1905454")
    close(found.interval[-2:], "-0.1802007", "0.3424906", "0.0510328", "0.8075939")
    assert found.se[:3] == pytest.approx([0.09813404, 0.24373700, 0.11301692], abs=1e-8)
    marginal = emee(frame, q=0.5, **BINARY)
    close([marginal.estimate[-1], *marginal.interval[-1]], "0.341", "0.241", "0.440")


def distal() -> None:
    """MRTAnalysis' vignette: the marginal distal effect, whose interval there has no correction."""
    found = dcee(pd.read_csv(DATA / "data_distal_continuous.csv"), controls="X + Z", **DISTAL)
    half = found.plain_se[0] * 2.0095752  # t with 49 degrees of freedom
    close([found.estimate[0], found.estimate[0] - half, found.estimate[0] + half], "0.404", "-0.771", "1.579")


def distal_made_as_code() -> None:
    """MRTAnalysis' own test of dcee, whose 60 participants come from R's random numbers."""
    r, n, steps = R(42), 60, 4
    frame = pd.DataFrame({"userid": np.repeat(np.arange(n), steps), "avail": 1, "prob_A": 0.5})
    frame["X"], _, frame["A"] = r.norm(n * steps), r.coin(n * steps, 0.4), r.coin(n * steps, 0.5)
    mean = frame.assign(AX=frame["A"] * frame["X"]).groupby("userid")[["X", "A", "AX"]].mean()
    y = 0.3 + 0.8 * mean["X"] + 0.5 * mean["A"] + 1.2 * mean["AX"] + 0.15 * r.norm(n)
    frame["Y"] = y.to_numpy()[frame["userid"]]
    marginal = dcee(frame, controls="X", **DISTAL)
    assert marginal.estimate == pytest.approx([0.0580563073126], abs=1e-12)
    assert marginal.plain_se == pytest.approx([0.0657496189214], abs=1e-12)
    moderated = dcee(frame, controls="X", moderators="X", **DISTAL)
    assert moderated.estimate == pytest.approx([0.0632080918257, 0.1334112843198], abs=1e-12)
    assert moderated.plain_covariance[0] == pytest.approx([0.004173239511498, 0.000404412691711], abs=1e-14)
    assert (marginal.df, moderated.df) == (59, 58)


def adaptive() -> None:
    """13 pooled updates: theta, and its covariance with and without what learning together adds."""
    frame = pd.read_csv(DATA / "lifejacket_expected_study_df.csv")
    frame = frame[frame["in_study"] == 1].assign(made_by=lambda rows: rows["policy_num"] - 1)
    expected = json.loads((DATA / "lifejacket_expected_analysis.json").read_text(encoding="utf-8"))

    def columns(rows: pd.DataFrame) -> Any:
        state = rows[["intercept", "past_reward"]].to_numpy(dtype=float)
        return np.column_stack([state, rows["action"].to_numpy(dtype=float)[:, None] * state])

    def score(rows: pd.DataFrame, beta: Any) -> Any:
        return columns(rows) * (rows["reward"].to_numpy() - columns(rows) @ beta)[:, None]

    def chance(rows: pd.DataFrame, beta: Any) -> Any:
        return np.clip(expit(3.0 * rows[["intercept", "past_reward"]].to_numpy() @ beta[2:]), 0.1, 0.9)

    betas = []
    for update in range(1, 14):
        before = frame[frame["made_by"] < update]
        betas.append(np.linalg.lstsq(columns(before), before["reward"].to_numpy(), rcond=None)[0])
    found = adaptive_sandwich(
        frame, betas=betas, chance=chance, score=score, update="made_by", outcome="reward", treatment="action",
        probability="action1prob", participant="user_id", controls="past_reward", moderators="past_reward",
        q="action1prob",
    )  # fmt: skip
    assert found.estimate == pytest.approx(expected["theta_est"], abs=1e-12)
    assert found.covariance == pytest.approx(np.array(expected["adaptive_sandwich_var_estimate"]), abs=1e-7)
    assert found.plain_covariance == pytest.approx(np.array(expected["classical_sandwich_var_estimate"]), abs=1e-7)


CASES: list[tuple[Callable[[], None], str | None]] = [
    (distal_made_as_code, None),
    (heartsteps, "HS1_cleaned.csv"),
    (heartsteps_lag, "HS1_cleaned.csv"),
    (mimic, "data_mimicHeartSteps.csv"),
    (mimic_moderated, "data_mimicHeartSteps.csv"),
    (binary, "data_binary.csv"),
    (distal, "data_distal_continuous.csv"),
    (adaptive, "lifejacket_expected_study_df.csv"),
]
FOUND = [check for check, file in CASES if file is None or (DATA / file).exists()]


@pytest.mark.parametrize("check", FOUND, ids=[check.__name__ for check in FOUND])
def test_published_numbers_come_out(check: Callable[[], None]) -> None:
    """What was published comes out, to the last digit that was printed."""
    check()


def test_digits_that_differ_are_noticed() -> None:
    """The control: a number that differs in its last printed digit is refused."""
    close([0.13120], "0.13120")
    with pytest.raises(AssertionError):
        close([0.13121], "0.13120")


def test_results_have_the_same_shape() -> None:
    """Every estimator gives `Estimates`, and the package names them all."""
    from opportune import inference

    assert inference.Estimates is Estimates
    assert {"wcls", "emee", "dcee", "arms", "actions", "policy_value", "simulated_value"} <= set(dir(inference))
