"""What a run consists of: every part lies where its declaration says, for NumPy and for compiled code alike."""

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit

from opportune.engine.declared import ARRAY_OF, ARRAYS, GROUPS, OPTIMISTIC, PLUGIN, SEARCH_ROWS, parts_of
from opportune.engine.layout import Layout, layout
from opportune.engine.pointers import WIDTH, aligned
from opportune.engine.sizes import Sizes
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
        {**FINITE, "senses": 4, "reported": True, "probabilities": PLUGIN, "delay": 2},
        {"blocks": 6, "parts": 4, "means": 6, "averaged": 1, "tallied": 6, "pending": 6, "standing": 2, "letters": 3},
    ),
    "optimistic": (
        {**FINITE, "strata": 1, "probabilities": OPTIMISTIC},
        {"blocks": 6, "parts": 6, "means": 1, "averaged": 1, "tallied": 6, "standing": 1, "searched": 6,
         "search_rows": SEARCH_ROWS + 12},
    ),
    "continuous": (
        {**CONTINUOUS, "probabilities": PLUGIN, "reported": True, "held": 9},
        {"means": 4, "moment": 1, "averaged": 1, "atom_room": 9},
    ),
    "continuous, known": (
        {**CONTINUOUS, "simd": 1},
        {"means": 4, "moment": 1, "averaged": 1, "atom_room": 9},
    ),
}  # fmt: skip
cases = pytest.mark.parametrize("name", CASES)
CORE = [group for group, declared in GROUPS.items() if declared is not None]


class Part(NamedTuple):
    """A part of a group, with where it begins in its array and where the next one does."""

    group: str
    name: str
    begin: int
    end: int


def all_parts(at: Layout) -> Iterator[Part]:
    """Every part of every group."""
    for group in GROUPS:
        bounds = itertools.pairwise(at.places_of(group))
        for name, (begin, end) in zip(parts_of(at.declared(group)), bounds, strict=True):
            yield Part(group, name, begin, end)


@cases
def test_sizes_are_products_of_the_declared_dimensions(name: str) -> None:
    """A part has room for exactly its dimensions, rounded up to whole vectors."""
    settings, derived = CASES[name]
    at = layout(**settings)
    simd = settings.get("simd", WIDTH)
    extents = {**at.sizes._asdict(), "code": settings.get("code", 0), **derived}
    for part in all_parts(at):
        dims = parts_of(at.declared(part.group))[part.name]
        size = math.prod(dim if isinstance(dim, int) else extents.get(dim, 0) for dim in dims)
        assert size <= part.end - part.begin < size + simd, f"{part.group}.{part.name}: {dims}"
        assert part.begin % simd == part.end % simd == 0


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
    assert sizes.counted == (0 if settings.get("probabilities", 0) == 0 else derived["means"])


def check_no_overlap(at: Layout) -> None:
    """Written one after the other through their views, all parts keep what they were given, and fill their array."""
    for array, groups in ARRAYS.items():
        numbers = np.zeros(at.length(array))
        views = [view for group in groups for view in at.views(group, numbers)]
        for i, view in enumerate(views):
            view[:] = i + 1.0
        for i, view in enumerate(views):
            assert (view == i + 1.0).all()
        assert numbers.all()
        assert sum(view.size for view in views) == numbers.size


@cases
def test_parts_do_not_overlap(name: str) -> None:
    """No number of an array belongs to two parts, and none to no part."""
    check_no_overlap(layout(**CASES[name][0]))


def test_parts_that_overlap_are_found() -> None:
    """The control: a layout in which a group begins before the one that it follows has ended."""
    at = layout(**CASES["known"][0])
    earlier = tuple(place - WIDTH for place in at.places_of("proposed"))
    wrong = [earlier if group == "proposed" else at.places_of(group) for group in GROUPS]
    with pytest.raises(AssertionError):
        check_no_overlap(at._replace(places=tuple(wrong)))


def compiled_writer(parts: list[tuple[str, str]]) -> Any:
    """Compiled code that writes 1, 2, ... to the first number of each part (by group), where it is present."""
    lines = ["def write(handle, present):", "    p = participant_at(handle)"]
    for i, (group, part) in enumerate(parts):
        lines.append(f"    if present[{i}]:\n        p.{group}.{part}[0] = {i + 1}.0")
    return made(lines, "write")


def compiled_reader() -> Any:
    """Compiled code that reads the sizes and the lengths of the arrays."""
    names = [*(f"sizes.{field}" for field in Sizes._fields), *(f"lengths.{array}" for array in ARRAYS)]
    lines = ["def read(handle, out):", "    p = participant_at(handle)"]
    return made([*lines, *(f"    out[{i}] = p.{name}" for i, name in enumerate(names))], "read")


def made(lines: list[str], name: str) -> Any:
    scope: dict[str, Any] = {"participant_at": participant_at}
    exec("\n".join(lines), scope)
    return njit(scope[name])


CORE_PARTS = [(group, part) for group in CORE for part in parts_of(GROUPS[group] or tuple)]
WRITE, READ = compiled_writer(CORE_PARTS), compiled_reader()


def check_written(at: Layout, writer: Any, parts: list[tuple[str, str]]) -> None:
    """What compiled code writes by name is where the layout, NumPy's views and plain Python say."""
    arrays = {name: aligned(at.length(name)) for name in ARRAYS}
    places = at.numbers()
    where = {(part.group, part.name): part for part in all_parts(at)}
    bounds = [where[each] for each in parts]
    writer(handle_of(places, arrays), np.array([part.end > part.begin for part in bounds]))
    python = of_arrays(at, *arrays.values())
    for i, part in enumerate(bounds):
        if part.end == part.begin:
            continue
        array = arrays[ARRAY_OF[part.group]]
        assert array[part.begin] == i + 1.0
        group = python
        for name in part.group.split("."):
            group = getattr(group, name)
        for view in (getattr(at.views(part.group, array), part.name), getattr(group, part.name)):
            assert view[0] == i + 1.0
            assert view.size == part.end - part.begin
            assert np.shares_memory(view, array)
    written = sum(np.count_nonzero(array) for array in arrays.values())
    assert written == sum(part.end > part.begin for part in bounds)


@cases
def test_compiled_code_sees_the_same_parts(name: str) -> None:
    """`p.model.theta[0]` in compiled code, in plain Python and by `views` are one number; so for every part."""
    at = layout(**CASES[name][0])
    check_written(at, WRITE, CORE_PARTS)
    found = np.zeros(len(Sizes._fields) + len(ARRAYS), dtype=np.int64)
    places, arrays = at.numbers(), {array: aligned(at.length(array)) for array in ARRAYS}
    READ(handle_of(places, arrays), found)
    sizes, lengths = found.tolist()[: len(Sizes._fields)], found.tolist()[len(Sizes._fields) :]
    assert Sizes(*sizes) == at.sizes
    assert tuple(lengths) == at.lengths


def test_a_group_is_filled_by_name() -> None:
    """`filled` puts numbers where their names say, of any shape, and leaves the rest 0."""
    at = layout(**FINITE)
    rows = np.arange(1.0, 49.0).reshape(8, 2, 3)
    filled = at.filled("constants", constants={"noise": 0.5, "rows": rows, "stratum_of": [0, 1, 0, 1, 0, 1]})
    views = at.views("constants", filled)
    assert (views.noise[0], views.delta[0]) == (0.5, 0.0)
    np.testing.assert_array_equal(views.rows[:48], rows.ravel())
    np.testing.assert_array_equal(views.stratum_of[:6], [0, 1, 0, 1, 0, 1])
    with pytest.raises(KeyError):
        at.filled("constants", constants={"nosie": 0.5})


def test_unpadded_parts_have_the_shapes_that_count() -> None:
    """Rows without the zeros that pad them to whole vectors; a number written there is the array's."""
    at = layout(**FINITE)
    model = aligned(at.length("model"))
    parts = at.unpadded("model", model)
    assert at.sizes.stride > 3, "the control: there is padding"
    assert {name: part.shape for name, part in parts.items()} == {
        "theta": (3,), "cov": (3, 3), "mean": (16,), "width2": (16,), "log_det": (1,), "radius": (1,),
        "centre": (0, 3), "precision": (0, 3), "gram": (0, 3, 3), "moment": (0, 3),  # of random effects
    }  # fmt: skip
    parts["cov"][2, 1] = 7.0
    assert at.views("model", model).cov[2 * at.sizes.stride + 1] == 7.0


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
