"""Effects on one outcome at the end: a plain reading, availability, and what is no distal outcome."""

import numpy as np
import pandas as pd
import pytest
from records import record

from opportune.errors import InputError
from opportune.inference import dcee


def distal(seed: int = 1, people: int = 40) -> pd.DataFrame:
    frame = record(seed, people=people)
    end = 3.0 + frame.groupby("id")["a"].transform("mean") * 2.0 + frame.groupby("id")["stress"].transform("mean")
    noise = np.random.default_rng(seed).normal(size=people)
    return frame.assign(y=end + noise[frame["id"].str[1:].astype(int)])


def test_a_plain_reading_agrees() -> None:
    """Estimate and covariance are those of the equations, row by row, with rows that are not eligible counting as 0."""
    frame = distal(2)
    found = dcee(frame, controls="stress", available="eligible")
    x = np.column_stack([np.ones(len(frame)), frame["stress"]])
    y, a = frame["y"].to_numpy(), frame["a"].to_numpy()
    mu = [x @ np.linalg.lstsq(x[a == arm], y[a == arm], rcond=None)[0] for arm in (0, 1)]
    signals: dict[str, list[float]] = {}
    for i, row in enumerate(frame.itertuples()):
        value = 0.0
        if row.eligible:
            value = (1 / row.p if row.a else -1 / (1 - row.p)) * (row.y - (1 - row.p) * mu[1][i] - row.p * mu[0][i])
        signals.setdefault(row.id, []).append(value)
    each = np.array([np.sum(values) for values in signals.values()])
    total, sizes = len(y), np.array([len(values) for values in signals.values()])
    beta = each.sum() / total
    left = (each - sizes * beta) / (1 - sizes / total)
    assert found.estimate == pytest.approx([beta])
    assert found.se == pytest.approx([np.sqrt((left**2).sum()) / total])
    assert found.df == 39


def test_weights_say_how_much_a_decision_point_counts() -> None:
    """Equal weights change nothing, whatever they are; weights on the first decision point leave only that one."""
    frame = distal(3)
    plain = dcee(frame, available="eligible")
    same = dcee(frame.assign(w=0.05), available="eligible", weight="w")
    assert same.estimate == pytest.approx(plain.estimate)
    assert same.se == pytest.approx(plain.se)
    first = dcee(frame.assign(w=1.0 * (frame["t"] == 1)), available="eligible", weight="w")
    assert first.estimate[0] != pytest.approx(plain.estimate[0], rel=0.01)


def test_an_outcome_that_changes_within_a_participant_is_refused() -> None:
    """The control, a distal outcome, is not."""
    with pytest.raises(InputError, match="column y changes within a participant"):
        dcee(record(1), available="eligible")
    assert np.isfinite(dcee(distal(1), available="eligible").se).all()


def test_a_record_with_one_treatment_is_refused() -> None:
    """Where nobody was treated nothing says what treatment does, however improbable it was."""
    with pytest.raises(InputError, match="a is 0 in every eligible row; expected both treatments"):
        dcee(distal(1).assign(a=0, p=0.02), available="eligible")
