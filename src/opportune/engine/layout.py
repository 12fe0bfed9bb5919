"""What a run consists of: one declaration for every array, from which places, sizes and named views are generated.

A run's numbers lie in a few flat arrays, one per group below. `Constants` is what both agents know beforehand about a
problem, `Rule` a policy in numbers; `Model`, `Counts`, `Snapshot` and `Budget` are what a participant changes;
`Scratch` is room to work in. Participants who share a budget or a model are handed the same array.

Step functions see them under their names: `p.model.theta[i]`, where `p` is a `Participant` that a driver puts together
once per run (engine.views). The dimensions of each part stand in its annotation.

Feature vectors come in blocks, one vector per action. Block k of `rows` is context k; where probabilities are known
there follow one block per public stratum (blind features) and, with reported variables, one per sensed part.
"""

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from opportune.engine.pointers import WIDTH
from opportune.engine.versions import PLAIN

TIE = 1e-12  # values this close count as equal, so that every compile target agrees

# How the context distribution is known.
KNOWN = 0
PLUGIN = 1
OPTIMISTIC = 2

# How gaps are scaled: by a constant (`range`, `gap`) or by the revealer's present largest gap (`adaptive`).
CONSTANT = 0
ADAPTIVE = 1

SEARCH_ROWS = 12  # rows of scratch space of the optimistic search, besides two for each context
NOTES = 8
SETTINGS = 8  # numbers that a revealer or a recommender may have of its own

Numbers = Any  # float64 numbers: an address on the CPU, an array on a GPU and in the simulator


class Sizes(NamedTuple):
    """How large a problem is, and which parts of the algorithm it needs."""

    d: int
    actions: int
    block: int  # numbers in a block of feature vectors: actions * d
    contexts: int  # K; 0: contexts are not a finite set
    strata: int  # public parts of a context
    senses: int  # sensed parts, with reported variables and finitely many contexts; else 0
    corners: int  # combinations of extreme values that bound what could be sensed, contexts not finite
    probabilities: int  # KNOWN, PLUGIN, OPTIMISTIC
    table: int  # rows whose scores are kept up to date, padded; 0: scores are computed on the spot
    stride: int  # from one row of cov to the next: d, padded
    support: int  # the most nonzero numbers in any row, where rows are listed by them; else 0
    counted: int  # parts with running means
    variables: int  # that a context consists of, contexts not finite
    reported: int  # 1: some variables are reported
    atoms: int  # of the feature program
    fixed_atoms: int  # those that do not depend on the action, which come first
    factors: int  # the most atoms whose product is a feature
    memory: int  # decision points that are kept until a reveal uncovers them, contexts not finite
    delay: int  # the most steps that a reward may be late
    interrupted: int  # 1: participants may be unavailable
    rotating: int  # 1: the recommender goes by which actions it took blindly
    sharers: int  # participants that share a budget, for revealers that rank moments among them; else 1
    ranked: int  # moments that a revealer ranks the present one among: sensed parts, or recent moments; 0: none


class Constants(NamedTuple):
    """What both agents know beforehand about a problem."""

    noise: Annotated[Numbers, 1]  # R
    regularisation: Annotated[Numbers, 1]  # lam
    prior: Annotated[Numbers, 1]  # sqrt(lam) W
    confidence: Annotated[Numbers, 1]  # 2 ln(1/delta)
    delta: Annotated[Numbers, 1]
    horizon: Annotated[Numbers, 1]  # T
    rows: Annotated[Numbers, "blocks", "actions", "d"]
    lists: Annotated[Numbers, "listed", "actions", "d"]  # places of each row's nonzero numbers, then these numbers
    columns: Annotated[Numbers, "d", "table"]  # the rows once more, the other way round
    stratum_of: Annotated[Numbers, "contexts"]
    sense_of: Annotated[Numbers, "contexts"]
    stratum_of_sense: Annotated[Numbers, "parts"]
    sense_probability: Annotated[Numbers, "parts"]
    start: Annotated[Numbers, "means", "actions", "d"]  # means before anything was counted (or for good, if known)
    distance: Annotated[Numbers, "distances", "actions", "actions"]  # between two actions' blind features, if rows
    hidden: Annotated[Numbers, "moment", "d"]  # 1 where a coordinate is not public, contexts not finite
    unsensed: Annotated[Numbers, "moment", "d"]  # 1 where a coordinate depends on something reported
    weight: Annotated[Numbers, "variables"]  # what a variable's level adds to the number of its stratum
    corner: Annotated[Numbers, "corners", "variables"]  # extreme values; NaN where the moment's own counts
    code: Annotated[Numbers, "code"]  # the feature program: see algorithm.features
    atom_end: Annotated[Numbers, "atoms"]
    factor: Annotated[Numbers, "moment", "d", "factors"]


class Rule(NamedTuple):
    """A policy in numbers, for one problem and horizon."""

    revealer: Annotated[Numbers, 1]  # its number in the registry
    recommender: Annotated[Numbers, 1]  # likewise
    amount: Annotated[Numbers, 1]  # B
    hard: Annotated[Numbers, 1]
    growth: Annotated[Numbers, 1]  # c = (1 + 1/B)^B
    decisions: Annotated[Numbers, 1]  # that the budget is for
    sharers: Annotated[Numbers, 1]  # participants that it is for
    member: Annotated[Numbers, 1]  # this participant's number among them
    kappa: Annotated[Numbers, 1]  # multiplies the radius where actions are chosen
    resigned: Annotated[Numbers, 1]  # 1: once nothing can be told any more, the recommender stops exploring
    scaling: Annotated[Numbers, 1]  # CONSTANT, ADAPTIVE
    scale: Annotated[Numbers, 1]
    settings: Annotated[Numbers, SETTINGS]  # the revealer's own
    options: Annotated[Numbers, SETTINGS]  # the recommender's own


class Model(NamedTuple):
    """What was learned of the reward: one per participant, or one for all of them (`pooled`)."""

    theta: Annotated[Numbers, "stride"]
    cov: Annotated[Numbers, "d", "stride"]  # V^-1
    mean: Annotated[Numbers, "table"]  # <x, theta> of every row
    width2: Annotated[Numbers, "table"]  # x' V^-1 x of every row
    log_det: Annotated[Numbers, 1]  # ln det V - d ln lam
    radius: Annotated[Numbers, 1]


class Counts(NamedTuple):
    """Which contexts one participant's revealer has seen, and what waits for a reveal to uncover it."""

    total: Annotated[Numbers, "counted", "actions", "d"]  # sums of features seen
    count: Annotated[Numbers, "counted"]
    seen: Annotated[Numbers, "tallied"]  # how often each context was seen
    pending_seen: Annotated[Numbers, "pending"]  # steps whose context nobody has seen yet
    pending_count: Annotated[Numbers, "pending", "actions"]  # those of them with a reward
    pending_total: Annotated[Numbers, "pending", "actions"]  # the sum of these
    held_values: Annotated[Numbers, "memory", "variables"]  # the same, contexts not finite: one row per step
    held_action: Annotated[Numbers, "memory"]
    held_state: Annotated[Numbers, "memory"]  # 0: nothing held, 1: pending, 2: pending with a reward
    held_reward: Annotated[Numbers, "memory"]
    held_until: Annotated[Numbers, 1]  # steps up to here may be held


class Snapshot(NamedTuple):
    """What the recommender froze at the last reveal: enough to act from until the next, for any recommender."""

    theta: Annotated[Numbers, "stride"]
    cov: Annotated[Numbers, "d", "stride"]
    radius: Annotated[Numbers, 1]
    total: Annotated[Numbers, "counted", "actions", "d"]
    count: Annotated[Numbers, "counted"]
    action: Annotated[Numbers, "standing"]  # the blind action in each stratum, where it cannot change until a reveal
    root: Annotated[Numbers, "sampled", "stride"]  # a triangular root of cov, for those who draw from it
    mean: Annotated[Numbers, "kept"]  # <bar(z, a), theta> of every blind row, where the table keeps scores
    width2: Annotated[Numbers, "kept"]  # bar' cov bar, likewise


class Trail(NamedTuple):
    """What the revealer remembers of one participant's contacts and moments."""

    debt: Annotated[Numbers, 1]  # F: what stale advice has cost since the last reveal, as estimated
    last_reveal: Annotated[Numbers, 1]  # its step; 0: none yet
    since: Annotated[Numbers, 1]  # steps settled without a reveal since
    unanswered: Annotated[Numbers, 1]  # nudges in a row
    wait: Annotated[Numbers, 1]  # steps for which the patient is left in peace
    opened: Annotated[Numbers, 1]  # steps at which the app was opened unasked
    tally: Annotated[Numbers, "tallied_parts"]  # sensed parts seen lately: counts that fade
    recent: Annotated[Numbers, "recent", "actions", "d"]  # features of recent moments, contexts not finite
    recent_stratum: Annotated[Numbers, "recent"]
    recent_count: Annotated[Numbers, 1]  # how many there have been
    own: Annotated[Numbers, SETTINGS]  # what a rule from outside remembers for itself, 0 at the start


class Budget(NamedTuple):
    """What was spent: one per participant, or one for all of them (`shared`)."""

    price: Annotated[Numbers, 1]
    spent: Annotated[Numbers, 1]
    nudges: Annotated[Numbers, 1]
    points: Annotated[Numbers, 1]  # decision points there have been
    opened: Annotated[Numbers, 1]  # those at which the app was opened unasked
    foregone: Annotated[Numbers, 1]  # decision points that will not come, as their participants have left
    guard_price: Annotated[Numbers, 1]  # of a virtual primal-dual rule beside
    guard_spent: Annotated[Numbers, 1]
    gain: Annotated[Numbers, "sharers", "ranked"]  # what a reveal would gain in each moment to expect
    odds: Annotated[Numbers, "sharers", "ranked"]  # and how probable each is


class Scratch(NamedTuple):
    """Room to work in; nothing here outlives a call, but for the moment's values and features within a step."""

    values: Annotated[Numbers, "variables"]
    other: Annotated[Numbers, "variables"]  # values of another moment
    atom: Annotated[Numbers, "atom_room"]
    x: Annotated[Numbers, "moment", "actions", "d"]  # full features of the moment, contexts not finite
    y: Annotated[Numbers, "moment", "actions", "d"]  # features of another moment
    blind: Annotated[Numbers, "averaged", "actions", "d"]
    w: Annotated[Numbers, "stride"]
    theta: Annotated[Numbers, "sampled", "stride"]  # a drawn parameter
    ucb: Annotated[Numbers, "actions"]
    base: Annotated[Numbers, "ranked_strata"]  # the best mean of the blind features of each stratum
    greedy: Annotated[Numbers, "ranked_strata"]  # and the action that has it
    notes: Annotated[Numbers, NOTES]  # what a revealer went by, for those who ask why
    # the optimistic search
    lower: Annotated[Numbers, "searched"]
    upper: Annotated[Numbers, "searched"]
    flat: Annotated[Numbers, "searched"]  # means of one action
    mixture: Annotated[Numbers, "actions", "searched"]  # the maximising probabilities of each action
    gram: Annotated[Numbers, "searched", "searched"]
    work: Annotated[Numbers, "search_rows", "searched"]


class Participant(NamedTuple):
    """Everything a step function needs, under its name."""

    sizes: Sizes
    constants: Constants
    rule: Rule
    model: Model
    counts: Counts
    snapshot: Snapshot
    trail: Trail
    budget: Budget
    scratch: Scratch


GROUPS = (Constants, Rule, Model, Counts, Snapshot, Trail, Budget, Scratch)
STATE = (Model, Counts, Snapshot, Trail, Budget)  # what is saved of a participant


class Layout(NamedTuple):
    """Where everything lies: the sizes, then each group's places (where its parts begin, and its end)."""

    sizes: Sizes
    places: tuple[tuple[int, ...], ...]

    @property
    def at(self) -> tuple[int, ...]:
        """All of it as whole numbers, as compiled code takes it."""
        return (*self.sizes, *(place for group in self.places for place in group))

    def numbers(self) -> NDArray[Any]:
        """The same as an array: of unsigned numbers if scores need the optimistic search (engine.named says why)."""
        search = self.sizes.probabilities == OPTIMISTIC and not PLAIN
        return np.array(self.at, dtype=np.uint64 if search else np.int64)

    def length(self, group: type) -> int:
        """How many numbers a group has."""
        return self.places[GROUPS.index(group)][-1]

    def views(self, group: Any, array: NDArray[np.float64]) -> Any:
        """A group's parts of an array, as NumPy views."""
        places = self.places[GROUPS.index(group)]
        return group(*(array[a:b] for a, b in itertools.pairwise(places)))

    def filled(self, group: Any, parts: Mapping[str, Any]) -> NDArray[np.float64]:
        """A group's array with these parts put in their places, the rest 0."""
        places = self.places[GROUPS.index(group)]
        bounds = _bounds(group, places)
        array = np.zeros(places[-1])
        for name, numbers in parts.items():
            begin, end = getattr(bounds, name)
            if isinstance(numbers, float | int) and begin < end:
                array[begin] = numbers
            else:
                values = np.asarray(numbers, dtype=np.float64).ravel()
                array[begin:end][: values.size] = values
        return array


@functools.lru_cache(maxsize=256)
def _bounds(group: Any, places: tuple[int, ...]) -> Any:
    """Where each part of a group begins and ends."""
    return group(*itertools.pairwise(places))


@functools.cache
def dimensions(group: type) -> dict[str, tuple[str | int, ...]]:
    """The dimensions of each part of a group, as declared."""
    return {name: hint.__metadata__ for name, hint in get_type_hints(group, include_extras=True).items()}


@functools.lru_cache(maxsize=256)
def layout(
    *, d: int, actions: int, contexts: int, strata: int, senses: int = 0, corners: int = 0,
    probabilities: int = KNOWN, table: bool = True, simd: int = WIDTH, support: int = 0, reported: bool = False,
    variables: int = 0, atoms: int = 0, fixed_atoms: int = 0, factors: int = 0, code: int = 0, depth: int = 0,
    memory: int = 0, sampled: bool = False, delay: int = 0, interrupted: bool = False,
    sharers: int = 1, recent: int = 0, paced: bool = False, rotating: bool = False,
) -> Layout:  # fmt: skip
    """The layout for a problem of these sizes.

    Every part begins at a multiple of `simd`, and rows that loops run along are padded with zeros to one (the table,
    of which two stretches are worked on together, to a multiple of two). Rows with at most `support` nonzero numbers
    are listed by these if that is at most half of them.
    """
    finite = contexts > 0
    known = probabilities == KNOWN
    blocks = contexts + (strata + senses if known and finite else 0)
    searched = contexts if probabilities == OPTIMISTIC else 0
    counted = 0 if known else strata + senses
    listed = support if finite and 2 * support <= d else 0
    sizes = Sizes(
        d=d, actions=actions, block=actions * d, contexts=contexts, strata=strata, senses=senses, corners=corners,
        probabilities=probabilities, table=_padded(blocks * actions, 2 * simd) if table and finite else 0,
        stride=_padded(d, simd), support=listed, counted=counted, variables=variables, reported=int(reported),
        atoms=atoms, fixed_atoms=fixed_atoms, factors=factors, memory=memory,
        delay=delay, interrupted=int(interrupted), rotating=int(rotating), sharers=sharers,
        ranked=0 if not paced else recent + 1 if not finite else senses or contexts,
    )  # fmt: skip
    extents: dict[str, int] = {
        **sizes._asdict(),
        "blocks": blocks,
        "listed": blocks if listed else 0,
        "parts": senses or contexts,
        "means": strata + senses,
        "tallied_parts": 0 if known or not paced else senses or contexts,
        "ranked_strata": strata if paced else 0,
        "recent": recent if paced and not finite else 0,
        "distances": strata if known and finite else 0,
        "moment": 0 if finite else 1,
        "averaged": 0 if known and finite and not reported else 1,
        "tallied": contexts if counted else 0,
        "pending": contexts if senses else 0,
        "standing": strata if finite else 0,
        "sampled": d if sampled else 0,
        "kept": strata * actions if known and finite and table else 0,
        "code": code,
        "atom_room": atoms + depth,
        "searched": searched,
        "search_rows": SEARCH_ROWS + 2 * searched,
    }
    return Layout(sizes, tuple(_places(group, extents, simd) for group in GROUPS))


def _places(group: type, extents: Mapping[str, int], simd: int) -> tuple[int, ...]:
    """Where each part of a group begins, and where the group ends."""
    places = [0]
    for dims in dimensions(group).values():
        size = math.prod(dim if isinstance(dim, int) else extents[dim] for dim in dims)
        places.append(places[-1] + _padded(size, simd))
    return tuple(places)


def _padded(size: int, simd: int) -> int:
    return -(-size // simd) * simd
