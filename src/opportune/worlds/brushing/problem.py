"""The agents' knowledge about a user of the brushing world: a problem from a formula."""

from typing import Any

import numpy as np

from opportune import checks
from opportune.errors import InputError
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.variables import DayOfStudy, Number, TimeOfDay
from opportune.worlds.brushing import step
from opportune.worlds.brushing.step import PRIOR, PROP, TOD, WEEKEND

STUDIES = tuple(step.SCALES)
BLIND = ("unknown", "known")
STRATA = 4
"""Public parts of a context: tod + 2 * weekend."""
NOISE_SD = 0.5
"""R. Rewards Q/180 lie in [0, 1], and any such variable is sub-Gaussian with scale 1/2."""
THETA_BOUND = 1.0
"""W. The best linear fit of Q/180 on phi has a norm from 0.37 to 0.81 for every shipped user."""


def brushing_problem(
    study: str,
    *,
    blind: str = "unknown",
    means: Any = None,
    noise_sd: float = NOISE_SD,
    theta_bound: float = THETA_BOUND,
    **settings: Any,
) -> ContinuousProblem:
    """Phi = [g; a*h] over public time of day, weekend and day, sensed prior brushing and proportion brushed.

    Args:
        study: "robas2" or "robas3", which has the day among its features.
        blind: how the recommender fills in `prior` and `prop` without a reveal: "unknown" uses running means of the
            values seen in the public stratum, 0 before the first; "known" uses `means`.
        means: E[prior | stratum] and E[prop | stratum], [2, 4]; required if blind is "known".
        noise_sd: sub-Gaussian scale R of the reward's noise.
        theta_bound: W, a bound on the norm of the linear fit.
        settings: of ContinuousProblem, such as delta.

    """
    names = step.feature_names(checks.choice("study", study, STUDIES))
    checks.choice("blind", blind, BLIND)
    if blind == "unknown" and means is not None:
        raise InputError("means were given, but blind is 'unknown'; expected blind='known' with them")
    taken = ("formula", "variables", "actions", "visibility", "order", "start", "value_range", "least_distance")
    checks.settings("brushing_problem", settings, ContinuousProblem, without=(*taken, "known_means"))
    mean, sd = step.SCALES[study]
    g = ["1" if name == "bias" else name for name in names]
    h = ["action" if name == "1" else f"action:{name}" for name in g if name != "prop"]
    problem = ContinuousProblem(
        " + ".join([*g, *h]),
        {
            "weekend": (0, 1),
            "tod": TimeOfDay(("morning", "evening")),
            "prior": Number(-mean / sd, (2.0 * step.CAP - mean) / sd),
            "prop": Number(0.0, 1.0),
            "day": DayOfStudy.scaled(step.HORIZON // 2),
        },
        ["no message", "message"],
        visibility={"weekend": "public", "prior": "sensed", "prop": "sensed"},
        order="written",
        start={"prior": 0.0, "prop": 0.0},
        value_range=(0.0, 1.0),  # also with a cost, since not sending is free
        least_distance=1.0,  # messages differ by a*h, and h has a 1 for the bias
        noise_sd=noise_sd,
        theta_bound=theta_bound,
        **settings,
    )
    if blind == "unknown":
        return problem
    if means is None:
        raise InputError("blind is 'known' without means; expected means of prior and prop, [2, 4]")
    return problem.replace(known_means=_known(problem, checks.array("means", means, (2, STRATA))))


def _known(problem: ContinuousProblem, means: Any) -> Any:
    """Features with `prior` and `prop` at their means, [strata, A, d]: features are linear in them."""
    points = np.tile(problem.middle, (STRATA, 1))
    points[:, WEEKEND], points[:, TOD] = np.arange(STRATA) // 2, np.arange(STRATA) % 2
    points[:, PRIOR], points[:, PROP] = means
    return problem.features(points)
