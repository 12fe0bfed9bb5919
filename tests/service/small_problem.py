"""A small problem with variables of every visibility, for tests of agents' states."""

import numpy as np

import opportune as op


def mixed_problem(*, known: bool) -> op.Problem:
    """Public, sensed and reported variables."""
    rng = np.random.default_rng(1)
    return op.Problem(
        rng.normal(size=(12, 3, 4)),
        rng.dirichlet(np.full(12, 2.0)) if known else None,
        noise_sd=0.3,
        theta_bound=2.0,
        value_range=(-1.0, 2.0),
        variables={"mood": ["a", "b", "c"], "hour": ["am", "pm"], "place": range(2)},
        visibility={"mood": "reported", "hour": "public"},
        action_names=("rest", "walk", "call"),
    )
