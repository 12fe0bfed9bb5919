"""Values that are wrong wherever a certain kind of thing is expected, and small problems and worlds to give them to."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import opportune as op
from opportune.errors import OpportuneError
from opportune.worlds.distributions import Uniform

Values = dict[str, Callable[[], Any]]

# Nothing of this is a number, a text, a truth or a container of such.
NOTHING: Values = {
    "bytes": lambda: b"1",
    "complex": lambda: 1 + 2j,
    "class": lambda: dict,
    "function": lambda: lambda: 1,
    "object": object,
    "table": lambda: pd.DataFrame({"a": [1]}),
    "dataset": lambda: xr.DataArray(np.ones((2, 2))),
    "time": lambda: datetime(2024, 1, 1, tzinfo=UTC),
    "timedelta": lambda: np.timedelta64(3, "s"),
}
NUMBER: Values = {
    **NOTHING, "None": lambda: None, "True": lambda: True, "text": lambda: "1", "NaN": lambda: math.nan,
    "inf": lambda: math.inf, "-inf": lambda: -math.inf, "400 digits": lambda: 10**400, "5000 digits": lambda: 10**5000,
    "list": lambda: [1], "array": lambda: np.ones(2), "path": lambda: Path("1"), "beyond": lambda: 1e300,
    "NumPy's NaN": lambda: np.float64("nan"), "NumPy's True": lambda: np.bool_(True),
}  # fmt: skip
RATE: Values = {**NUMBER, "list": lambda: [1, 1], "beyond": lambda: [1.5], "text": lambda: ["1"]}
POSITIVE: Values = {**NUMBER, "0": lambda: 0, "negative": lambda: -1, "hardly any": lambda: 1e-300}
WHOLE: Values = {
    **NOTHING, "None": lambda: None, "True": lambda: True, "text": lambda: "1", "NaN": lambda: math.nan,
    "a half": lambda: 1.5, "float": lambda: 2.0, "negative": lambda: -1, "400 digits": lambda: 10**400,
    "list": lambda: [1], "array": lambda: np.array([1]),
}  # fmt: skip
TRUTH: Values = {
    **NOTHING, "None": lambda: None, "1": lambda: 1, "0": lambda: 0, "'false'": lambda: "false", "''": lambda: "",
    "array": lambda: np.array([True]), "list": lambda: [True],
}  # fmt: skip
WORD: Values = {
    **NOTHING, "None": lambda: None, "1": lambda: 1, "nonsense": lambda: "nonsense", "''": lambda: "",
    "list": lambda: ["a"], "array": lambda: np.array(["a"]), "NUL": lambda: "a\0b", "long": lambda: "x" * 100_000,
}  # fmt: skip
NAME: Values = {
    **NOTHING, "1": lambda: 1, "list": lambda: ["a"], "NUL": lambda: "a\0b", "escape code": lambda: "\x1b[31mred",
    "line end": lambda: "a\nb", "turned around": lambda: "\u202eabc", "half a character": lambda: "\ud800",
    "long": lambda: "x" * 100_000,
}  # fmt: skip
ARRAY: Values = {
    "text": lambda: "1 2", "list of text": lambda: ["1", "2"], "complex": lambda: np.ones(2, complex),
    "ragged": lambda: [[1, 2], [3]], "objects": lambda: np.array([None, "x"]), "number": lambda: 1.0,
    "mapping": lambda: {"a": 1}, "set": lambda: {1, 2}, "generator": lambda: (i for i in range(2)),
    "empty": list, "dates": lambda: np.array(["2024-01-01"], dtype="datetime64[D]"),
    "NaN": lambda: [math.nan, 1.0], "infinite": lambda: [math.inf, 1.0], "beyond": lambda: [1e300, 1.0],
    "five axes": lambda: np.ones((1, 1, 1, 1, 1)), "gaps": lambda: np.ma.array([1.0, 2.0], mask=[False, True]),
    "huge range": lambda: range(10**9), "truths": lambda: np.array([True, False]),
}  # fmt: skip
MAPPING: Values = {
    **NOTHING, "text": lambda: "a", "1": lambda: 1, "list": lambda: [1], "array": lambda: np.ones(2),
    "set": lambda: {"a"},
}  # fmt: skip
PATH: Values = {
    **NOTHING, "None": lambda: None, "1": lambda: 1, "''": lambda: "", "list": lambda: ["a"], "NUL": lambda: "a\0b.nc",
    "line end": lambda: "a\nb.nc", "half a character": lambda: "\ud800.nc", "long": lambda: "x" * 100_000,
}  # fmt: skip
LISTED: Values = {
    **NOTHING, "text": lambda: "ab", "1.5": lambda: 1.5, "mapping": lambda: {"a": 1}, "set": lambda: {"a", "b"},
    "without axes": lambda: np.array(2.0), "huge": lambda: range(10**8), "endless": lambda: iter(int, 1),
}  # fmt: skip


FEATURES = np.arange(12.0).reshape(3, 2, 2) + 1.0
PROBS = [0.2, 0.3, 0.5]
RATES = {"open_rate": 0.1, "response_rate": 0.5, "available_rate": 0.9, "reward_rate": 0.9}


def finite(**settings: Any) -> op.Problem:
    return op.Problem(**{"features": FEATURES, "context_probs": PROBS, "theta_bound": 3.0, **settings})


def continuous(**settings: Any) -> op.ContinuousProblem:
    given = {"formula": "action*x + t", "variables": {"x": op.Number(0, 1), "t": op.TimeOfDay(["a", "b"])}}
    return op.ContinuousProblem(**{**given, "actions": 2, "theta_bound": 3.0, **settings})


def linear(**settings: Any) -> op.LinearWorld:
    return op.LinearWorld(settings.pop("problem", finite()), **{"theta": [0.1, 0.2], **settings})


def drawn(**settings: Any) -> op.ContinuousWorld:
    problem = settings.pop("problem", continuous())
    return op.ContinuousWorld(problem, **{"theta": [0.1] * 4, "distributions": {"x": Uniform(0, 1)}, **settings})


def refusal(call: Callable[[], Any]) -> str:
    """What a call is refused with: one line, which can be shown anywhere."""
    with pytest.raises(OpportuneError) as caught:
        call()
    text = str(caught.value)
    assert text.isprintable(), ascii(text)
    assert len(text) < 700
    assert " at 0x" not in text
    assert "site-packages" not in text
    return text
