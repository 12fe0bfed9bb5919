"""Expected features: exact where there is a formula, and what many draws average to."""

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from opportune.errors import InputError
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.variables import DayOfStudy, Number, TimeOfDay
from opportune.worlds.distributions import Choice, LogNormal, Normal, Resampled, Truncated, Uniform, pack, quantile
from opportune.worlds.expected import expected_features

VARIABLES: dict[str, Any] = {
    "tod": TimeOfDay(("am", "pm")),
    "steps": Number(100, 20_000),
    "sleep": Number(0, 24),
    "mood": ("low", "fair", "high"),
    "noise": Number(0, 1),
    "day": DayOfStudy(10),
    "stress": (1, 2, 4),
}
DRAWN: dict[str, Any] = {
    "steps": LogNormal(4000, 0.6),
    "sleep": Normal(7, 1),
    "mood": Choice({"low": 0.5, "high": 0.5}),
    "noise": Uniform(0, 1),
    "stress": Choice({1: 0.25, 4: 0.75}),
}


def problem(formula: str, variables: Any = None, **settings: Any) -> ContinuousProblem:
    return ContinuousProblem(formula, variables or VARIABLES, ["no", "yes"], **settings)


def by_name(made: ContinuousProblem, expected: Any) -> dict[str, Any]:
    return dict(zip(made.program.names, np.moveaxis(expected, -1, 0), strict=True))


def test_expectations_that_are_known() -> None:
    """Moments of the distributions come out as their formulas say."""
    made = problem(
        "log(steps) + steps + sleep + I(sleep**2) + mood + noise:stress + I(noise**3) + {sleep * noise}"
        " + tod:sleep + day + action:stress + abs(sleep - 7)"
    )
    found = by_name(made, expected_features(made, DRAWN))
    law = stats.truncnorm(
        math.log(100 / 4000) / 0.6, math.log(20_000 / 4000) / 0.6, loc=math.log(4000), scale=0.6
    )  # of log steps
    packed = pack(VARIABLES, DRAWN)
    for name, value in {
        "log(steps)": law.mean(), "steps": packed.means[1], "sleep": 7.0, "I(sleep ** 2)": 50.0, "mood=fair": 0.0,
        "mood=high": 0.5, "noise:stress": 0.5 * 3.25, "I(noise ** 3)": 0.25, "sleep * noise": 3.5, "day": 5.5,
    }.items():  # fmt: skip
        np.testing.assert_allclose(found[name], value, rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(found["tod=pm:sleep"], [[0, 0], [7, 7]], rtol=1e-9)
    np.testing.assert_allclose(found["action=yes:stress"], [[0, 3.25], [0, 3.25]], rtol=1e-12)
    np.testing.assert_allclose(found["abs(sleep - 7)"], math.sqrt(2 / math.pi), rtol=1e-3)


def test_expectations_are_what_draws_average_to() -> None:
    """The mean of features over many draws by `quantile` agrees with the quadrature."""
    made = problem("action * log1p(steps) * mood + sqrt(sleep):noise", visibility={"mood": "public"})
    drawn = {**DRAWN, "sleep": Truncated(Normal(5, 3), 2, 9)}
    packed = pack(VARIABLES, drawn)
    u = np.random.default_rng(1).random((20_000, 5))
    values = np.zeros((len(u), 8))
    for v, kind in enumerate(packed.kinds):
        if kind >= 0:
            values[:, v] = [quantile(kind, packed.parameters, packed.places[v], x) for x in u[:, packed.uniforms[v]]]
    expected = expected_features(made, drawn)
    assert expected.shape == (6, 2, made.d)
    for stratum in (0, 2):
        inside = np.array([made.stratum(row) == stratum for row in values])
        np.testing.assert_allclose(made.features(values[inside]).mean(axis=0), expected[stratum], rtol=0.02)


def test_rows_of_a_table_by_stratum() -> None:
    """Rows of a stratum are averaged jointly with what is drawn on its own; a stratum without rows takes all."""
    table = Resampled({"mood": ["low", "low", "high", "high"], "sleep": [5.0, 7.0, 8.0, 10.0]})
    made = problem("action + sleep + sleep:noise + mood", visibility={"mood": "public"})
    drawn = {name: law for name, law in DRAWN.items() if name not in table.columns}
    found = by_name(made, expected_features(made, drawn, table=table))
    np.testing.assert_allclose(found["sleep"][:, 0], [6, 7.5, 9, 6, 7.5, 9])
    np.testing.assert_allclose(found["sleep:noise"][:, 1], [3, 3.75, 4.5, 3, 3.75, 4.5])
    np.testing.assert_allclose(found["mood=high"][:, 0], [0, 0, 1, 0, 0, 1])


def test_too_many_variables_in_one_feature() -> None:
    """A feature of many numbers is refused, with the way out."""
    numbers = {name: Number(0, 1) for name in "abcd"}
    made = problem("action:a:b:c:d", numbers)
    message = (
        "a feature depends on variables that need 268435456 points to average over; expected at most 4000000, "
        "or known_means=..."
    )
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        expected_features(made, dict.fromkeys(numbers, Uniform(0, 1)))
