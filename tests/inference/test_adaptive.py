"""The adaptive sandwich: a plain reading of the stack, and rules for which it is not made."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from records import pooled, pooled_chance, pooled_columns, pooled_score

from opportune.errors import InputError
from opportune.inference import Estimates, adaptive_sandwich, wcls


def analysed(frame: pd.DataFrame, betas: Any, **changes: Any) -> Estimates:
    given = {"betas": betas, "chance": pooled_chance, "score": pooled_score, "q": 0.5, **changes}
    return adaptive_sandwich(frame, **given)


def by_hand(frame: pd.DataFrame, betas: Any, theta: Any) -> tuple[Any, Any]:
    """The stack as one function of all parameters, weights and all, differentiated by small differences."""
    ids = sorted(frame["id"].unique())
    updates, d = betas.shape
    at = np.concatenate([betas.ravel(), theta])

    def stack(parameters: Any) -> Any:
        beta = parameters[: updates * d].reshape(updates, d)
        p = frame["p"].to_numpy().copy()
        for u in range(1, updates + 1):
            there = (frame["update"] == u).to_numpy()
            p[there] = pooled_chance(frame[there], beta[u - 1])
        a, p_hat = frame["a"].to_numpy(), frame["p"].to_numpy()
        ratio = np.where(a == 1, p / p_hat, (1 - p) / (1 - p_hat))
        blocks = []
        for u in range(1, updates + 2):
            before = (frame["update"] < u).to_numpy() if u <= updates else np.ones(len(frame), dtype=bool)
            if u <= updates:
                each = pooled_score(frame[before], beta[u - 1])
            else:
                x = np.column_stack([np.ones(len(frame)), frame["last"], a - 0.5])
                weight = np.where(a == 1, 0.5 / p, 0.5 / (1 - p))
                each = x * (weight * (frame["y"].to_numpy() - x @ parameters[-3:]))[:, None]
            who = frame["id"].to_numpy()[before]
            blocks.append([np.prod(ratio[before][who == i]) * each[who == i].sum(axis=0) for i in ids])
        return np.concatenate(blocks, axis=1)

    h = 1e-6
    slopes = -np.column_stack([(stack(at + h * e) - stack(at - h * e)).sum(axis=0) / (2 * h) for e in np.eye(len(at))])
    bread, scores = np.linalg.inv(slopes), stack(at)
    return scores.sum(axis=0), (bread @ scores.T @ scores @ bread.T)[-3:, -3:]


def test_a_plain_reading_agrees() -> None:
    """The covariance is that of the whole stack, whose equations all hold at the estimates."""
    frame, betas = pooled(3, steps=4)
    found = analysed(frame, betas, controls="last")
    left, covariance = by_hand(frame, betas, found.estimate)
    assert left == pytest.approx(np.zeros(len(left)), abs=1e-8)
    assert found.covariance == pytest.approx(covariance, rel=1e-5)


def test_the_estimate_is_that_of_wcls() -> None:
    """Only the errors differ; without the correction and without the updates they are those of wcls."""
    frame, betas = pooled(4)
    found, plain = analysed(frame, betas, controls="last"), wcls(frame, controls="last", q=0.5)
    assert found.estimate == pytest.approx(plain.estimate)
    assert found.plain_se == pytest.approx(plain.plain_se)
    assert found.se[-1] != pytest.approx(plain.plain_se[-1], rel=1e-4)
    assert found.df == plain.df


def test_outcomes_that_are_missing_are_left_out() -> None:
    """The draw of such a row still counts; nothing of its outcome does."""
    frame, _ = pooled(5)
    holes = frame.assign(y=frame["y"].where(frame.index % 40 != 7))
    known = holes.dropna()
    betas = []
    for u in range(1, 8):
        x, y = pooled_columns(known[known["update"] < u]), known.loc[known["update"] < u, "y"].to_numpy()
        betas.append(np.linalg.solve(x.T @ x + np.eye(4), x.T @ y))
    holes["p"] = np.concatenate(
        [np.full(100, 0.5), *(pooled_chance(holes[holes["update"] == u], betas[u - 1]) for u in range(1, 8))]
    )

    def without(rows: pd.DataFrame, beta: Any) -> Any:
        there = rows["y"].notna().to_numpy()
        each = np.zeros((len(rows), 4))
        each[there] = pooled_score(rows[there], beta)
        return each

    found = analysed(holes, np.array(betas), controls="last", score=without)
    assert found.estimate == pytest.approx(wcls(holes, controls="last", q=0.5).estimate)
    assert any("20 of 800 outcomes" in note for note in found.notes)


def test_fewer_than_100_participants_are_refused() -> None:
    """It says why, and what to report instead; 100 are enough."""
    with pytest.raises(InputError, match=r"99 participants are too few for the adaptive sandwich.*Report wcls"):
        analysed(*pooled(1, people=99))
    assert analysed(*pooled(1, people=100)).participants == 100


def test_a_rule_that_jumps_is_refused() -> None:
    """The best action with a floor has no derivative; a smooth rule has."""
    frame, betas = pooled(2)

    def jumps(rows: pd.DataFrame, beta: Any) -> Any:
        return np.where(pooled_chance(rows, beta) > 0.5, 0.9, 0.1)

    rng = np.random.default_rng(1)
    for u in range(1, 8):
        there = frame["update"] == u
        frame.loc[there, "p"] = jumps(frame[there], betas[u - 1])
    frame["a"] = (rng.random(len(frame)) < frame["p"]).astype(int)
    with pytest.raises(InputError, match="do not change smoothly"):
        analysed(frame, betas, chance=jumps)


def test_another_rule_than_the_one_that_drew_is_refused() -> None:
    """Recorded probabilities must be those of the rule, under the parameters of the row's update."""
    frame, betas = pooled(2)
    with pytest.raises(InputError, match="chance gives probabilities that differ from the recorded ones"):
        analysed(frame, betas[::-1])
    with pytest.raises(InputError, match="column update holds numbers other than 0 to 6"):
        analysed(frame, betas[:-1])
    with pytest.raises(InputError, match=r"score gives shape \[3\]"):
        analysed(frame, betas, score=lambda rows, beta: np.zeros(3))


def test_parameters_that_do_not_solve_the_score_are_refused() -> None:
    """An update's score must sum to 0 at its parameters, or the derivative is that of other equations."""
    frame, betas = pooled(2)
    with pytest.raises(InputError, match="betas do not solve the equations of update 1: its score sums to"):
        analysed(frame, betas, score=lambda rows, beta: pooled_score(rows, beta) + 0.1)
    with pytest.raises(InputError, match="betas do not solve"):  # the penalty left out
        analysed(frame, betas, score=lambda rows, beta: pooled_score(rows, beta) + beta / len(rows))
