"""What a run consists of: every part lies where its declaration says, for NumPy and for compiled code alike."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numba import njit

from opportune.engine.layout import (
    GROUPS,
    OPTIMISTIC,
    PLUGIN,
    SEARCH_ROWS,
    SETTINGS,
    Constants,
    Layout,
    Sizes,
    dimensions,
    layout,
)
from opportune.engine.pointers import WIDTH, aligned
from opportune.engine.views import handle_of, of_arrays, participant_at
from opportune.problems.finite import Problem

FINITE: dict[str, Any] = {"d": 3, "actions": 2, "contexts": 6, "strata": 2}
CONTINUOUS: dict[str, Any] = {
    "d": 5, "actions": 3, "contexts": 0, "strata": 4, "corners": 8, "variables": 6, "atoms": 7, "fixed_atoms": 4,
    "factors": 3, "code": 40, "depth": 2,
}  # fmt: skip

# Layouts, and what those dimensions come to that are not sizes themselves; others are 0.
CASES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "known": (
        FINITE,
        {"blocks": 8, "parts": 6, "means": 2, "distances": 2, "standing": 2, "kept": 4},
    ),
    "reported": (
        {**FINITE, "senses": 4, "reported": True, "table": False, "simd": 1, "support": 1},
        {"blocks": 12, "listed": 12, "parts": 4, "means": 6, "distances": 2, "averaged": 1, "pending": 6,
         "standing": 2},
    ),
    "unknown": (
        {**FINITE, "senses": 4, "reported": True, "probabilities": PLUGIN, "sampled": True},
        {"blocks": 6, "parts": 4, "means": 6, "averaged": 1, "tallied": 6, "pending": 6, "standing": 2, "sampled": 3},
    ),
    "optimistic": (
        {**FINITE, "strata": 1, "probabilities": OPTIMISTIC},
        {"blocks": 6, "parts": 6, "means": 1, "averaged": 1, "tallied": 6, "standing": 1, "searched": 6,
         "search_rows": SEARCH_ROWS + 12},
    ),
    "paced": (
        {**FINITE, "senses": 4, "reported": True, "probabilities": PLUGIN, "paced": True, "sharers": 3, "delay": 2},
        {"blocks": 6, "parts": 4, "means": 6, "averaged": 1, "tallied": 6, "pending": 6, "standing": 2,
         "tallied_parts": 4, "ranked_strata": 2},
    ),
    "continuous": (
        {**CONTINUOUS, "probabilities": PLUGIN, "reported": True, "memory": 9, "sampled": True},
        {"means": 4, "moment": 1, "averaged": 1, "sampled": 5, "code": 40, "atom_room": 9},
    ),
    "continuous, paced": (
        {**CONTINUOUS, "paced": True, "recent": 20},
        {"means": 4, "moment": 1, "averaged": 1, "ranked_strata": 4, "recent": 20, "code": 40, "atom_room": 9},
    ),
    "continuous, known": (
        {**CONTINUOUS, "simd": 1},
        {"means": 4, "moment": 1, "averaged": 1, "code": 40, "atom_room": 9},
    ),
}  # fmt: skip
cases = pytest.mark.parametrize("name", CASES)


def parts_of(at: Layout) -> list[tuple[type, str, int, int]]:
    """Every part of every group, with where it begins and where the next one does."""
    return [
        (group, part, begin, end)
        for group, places in zip(GROUPS, at.places, strict=True)
        for part, (begin, end) in zip(dimensions(group), itertools.pairwise(places), strict=True)
    ]


@cases
def test_sizes_are_products_of_the_declared_dimensions(name: str) -> None:
    """A part has room for exactly its dimensions, rounded up to whole vectors."""
    settings, derived = CASES[name]
    at = layout(**settings)
    simd = settings.get("simd", WIDTH)
    extents = {**at.sizes._asdict(), **derived}
    for group, part, begin, end in parts_of(at):
        dims = dimensions(group)[part]
        size = math.prod(dim if isinstance(dim, int) else extents.get(dim, 0) for dim in dims)
        assert size <= end - begin < size + simd, f"{group.__name__}.{part}: {dims}"
        assert begin % simd == end % simd == 0


@cases
def test_sizes_are_those_of_the_problem(name: str) -> None:
    """Padded numbers aside, sizes are what was asked for; rows are padded to whole vectors, the table to two."""
    settings, derived = CASES[name]
    sizes = layout(**settings).sizes
    simd, table = settings.get("simd", WIDTH), settings.get("table", True)
    for field, value in settings.items():
        if field in Sizes._fields and field not in {"table", "support"}:
            assert getattr(sizes, field) == value
    assert sizes.block == sizes.actions * sizes.d
    assert sizes.d <= sizes.stride < sizes.d + simd
    rows = derived.get("blocks", 0) * sizes.actions if table else 0
    assert rows <= sizes.table < rows + 2 * simd
    assert sizes.table % (2 * simd) == 0
    ranked = {"paced": 4, "continuous, paced": 21}  # sensed parts; recent moments and the present one
    assert sizes.ranked == ranked.get(name, 0)
    assert sizes.counted == (0 if settings.get("probabilities", 0) == 0 else derived["means"])


@cases
def test_parts_do_not_overlap(name: str) -> None:
    """Written one after the other through their views, all parts keep what they were given, and fill their group."""
    at = layout(**CASES[name][0])
    for group in GROUPS:
        array = np.zeros(at.length(group))
        views = at.views(group, array)
        assert views._fields == tuple(dimensions(group))
        for i, view in enumerate(views):
            view[:] = i + 1.0
        for i, view in enumerate(views):
            assert (view == i + 1.0).all()
        assert array.all()
        assert sum(view.size for view in views) == array.size


def doors() -> Any:
    """Compiled code that writes 1, 2, ... to the first number of each part, and reads the sizes."""
    lines = ["def write(handle, present):", "    p = participant_at(handle)"]
    names = [(group.__name__.lower(), part) for group in GROUPS for part in dimensions(group)]
    for i, (group, part) in enumerate(names):
        lines.append(f"    if present[{i}]:\n        p.{group}.{part}[0] = {i + 1}.0")
    lines += ["def read(handle, out):", "    n = participant_at(handle).sizes"]
    lines += [f"    out[{i}] = n.{field}" for i, field in enumerate(Sizes._fields)]
    scope: dict[str, Any] = {"participant_at": participant_at}
    exec("\n".join(lines), scope)
    return njit(scope["write"]), njit(scope["read"])


WRITE, READ = doors()


@cases
def test_compiled_code_sees_the_same_parts(name: str) -> None:
    """`p.model.theta[0]` in compiled code, in plain Python and by `views` are one number; so for every part."""
    at = layout(**CASES[name][0])
    arrays = [aligned(at.length(group)) for group in GROUPS]
    places = np.array(at.at)
    handle = handle_of(places, *arrays)
    present = np.array([end > begin for _, _, begin, end in parts_of(at)])
    WRITE(handle, present)
    python = of_arrays(at.at, *arrays)
    for i, (group, part, begin, end) in enumerate(parts_of(at)):
        array = arrays[GROUPS.index(group)]
        if end > begin:
            assert array[begin] == i + 1.0
            for view in (getattr(at.views(group, array), part), getattr(getattr(python, group.__name__.lower()), part)):
                assert view[0] == i + 1.0
                assert view.size == end - begin
                assert np.shares_memory(view, array)
    sizes = np.zeros(len(Sizes._fields), dtype=np.int64)
    READ(handle, sizes)
    assert Sizes(*sizes.tolist()) == at.sizes == python.sizes


def test_a_group_is_filled_by_name() -> None:
    """`filled` puts numbers where their names say, of any shape, and leaves the rest 0."""
    at = layout(**FINITE)
    rows = np.arange(1.0, 49.0).reshape(8, 2, 3)
    views = at.views("constants", at.filled(Constants, {"noise": 0.5, "rows": rows, "stratum_of": [0, 1, 0, 1, 0, 1]}))
    assert (views.noise[0], views.delta[0]) == (0.5, 0.0)
    np.testing.assert_array_equal(views.rows[:48], rows.ravel())
    np.testing.assert_array_equal(views.stratum_of[:6], [0, 1, 0, 1, 0, 1])
    with pytest.raises(AttributeError):
        at.filled(Constants, {"nosie": 0.5})


def test_a_rule_has_room_for_settings() -> None:
    """As many numbers of their own as documented, for revealer and recommender."""
    at = layout(**FINITE)
    rule = at.views(GROUPS[1], np.zeros(at.length(GROUPS[1])))
    assert min(rule.settings.size, rule.options.size) >= SETTINGS


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("reported", [True, False])
def test_constants_fill_their_layout(known: bool, reported: bool) -> None:
    """A problem's constants are as long as its layout says, and each part stands where the layout says."""
    rng = np.random.default_rng(1)
    problem = Problem(
        rng.normal(size=(6, 2, 3)),
        np.full(6, 1 / 6) if known else None,
        variables={"a": range(2), "b": range(3)},
        visibility={"a": "public", "b": "reported" if reported else "sensed"},
    )
    for optimistic, table in itertools.product((False, True), (False, True)):
        at = problem.layout(optimistic=optimistic, table=table)
        constants = problem.constants(at, 50)
        assert constants.size == at.length("constants")
        parts = at.views("constants", constants)
        np.testing.assert_array_equal(parts.rows[:36], problem.features.ravel())
        np.testing.assert_array_equal(parts.stratum_of[:6], problem.stratum_of)
        np.testing.assert_array_equal(parts.sense_of[:6], problem.sense_of)
        means = problem.means(problem.stratum_of, 2, problem.context_probs)
        np.testing.assert_array_equal(parts.start[:12], means.ravel())
        if table:
            columns = parts.columns[: 3 * at.sizes.table].reshape(3, -1)
            np.testing.assert_array_equal(columns[:, :12], problem.features.reshape(12, 3).T)
        if known:
            np.testing.assert_array_equal(parts.rows[36:48], means.ravel())
