"""Where things lie: everything a run reads is one flat array, everything it changes another.

`facts` is what both agents know beforehand about a world, `s` is one participant's state. A `Layout` says where each
part begins in them. Step functions take it as `at`, an array (for a CUDA kernel: a constant tuple) of whole numbers.
So a run is one allocation, and a live agent is saved and resumed exactly.

Feature vectors come in blocks of A, an action each. Block k of `rows` is context k; where probabilities are known
there follow one block for each public cell (blind features) and, with reported variables, one for each sensed cell.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

WIDTH = 8  # numbers in a vector register of a CPU
TIE = 1e-12  # values this close count as equal, so that every compile target agrees

# How the context distribution is known.
KNOWN = 0
PLUGIN = 1
OPTIMISTIC = 2

# How gaps are scaled: by a constant (`range`, `gap`) or by the revealer's present largest gap (`adaptive`).
CONSTANT = 0
ADAPTIVE = 1

# Who picks the action: the bandit, chance, or (0, 1, ...) always the same.
BANDIT = -1
RANDOM = -2

# The numbers that `facts` begins with.
NOISE = 0  # R
REGULARISATION = 1  # lam
PRIOR = 2  # sqrt(lam) W
CONFIDENCE = 3  # 2 ln(1/delta)
DELTA = 4
HORIZON = 5  # T, which the optimistic confidence box needs
FACTS_HEAD = 6

SEARCH_ROWS = 12  # rows of scratch space of the optimistic search, besides two for each context

# A purse: what the revealer has spent. Participants of a shared budget share one.
PRICE = 0
SPENT = 1
NUDGES = 2
PURSE_SIZE = 3


class Rule(NamedTuple):
    """A policy in numbers."""

    rule: int
    budget: float
    hard: bool
    rate: float  # FixedRate's B/T
    tolerance: float  # beta_0
    every: int
    growth: float  # c
    scaling: int  # CONSTANT, ADAPTIVE
    scale: float
    treatment: int  # BANDIT, RANDOM, or an action


# The places of a rule's entries, in the order of `Rule`: step functions take it as an array of floats.
RULE, BUDGET, HARD, RATE, TOLERANCE, EVERY, GROWTH, SCALING, SCALE, TREATMENT = range(10)


class Proposal(NamedTuple):
    """What the revealer sees and intends at one step, before the coin."""

    gap: float
    price: float
    probability: float
    tolerance: float
    disagreement: float
    fresh_action: int
    stale_action: int


class Layout(NamedTuple):
    """Sizes, and where each part begins in `facts` and in the state `s`."""

    d: int
    actions: int
    contexts: int  # K; 0: not a finite set
    cells: int  # public cells
    senses: int  # with reported variables, sensed cells; else 0
    corners: int  # feature vectors that bound what could be sensed, contexts not finite
    probabilities: int  # KNOWN, PLUGIN, OPTIMISTIC
    table: int  # rows whose scores are kept incrementally, padded; 0: scores are computed on the spot
    stride: int  # from one row of cov to the next: d, padded
    support: int  # the most nonzero numbers in any row, where rows are listed by them; else 0
    counted: int  # cells with running means

    # facts
    rows: int  # [blocks, A, d]
    lists: int  # [blocks, A, d]: the places of each row's nonzero numbers, then these numbers, where they are listed
    columns: int  # [d, table]
    cell_of: int  # [K]: the public cell of a context
    sense_of: int  # [K]: the sensed cell of a context
    start: int  # [cells + senses, A, d]: blind features before anything was counted (or for good, if known)
    distance: int  # [cells, A, A]: how far apart two actions' blind features are, if they are rows
    hidden: int  # [d]: 1 where a coordinate is not public, contexts not finite
    facts_size: int

    # state that must be kept
    theta: int  # [stride]
    cov: int  # [d, stride], V^-1
    mean: int  # [table]
    width2: int  # [table]
    log_det: int  # ln det V - d ln lam
    radius: int
    old_radius: int
    stale: int  # [cells]: the recommender's blind action in each public cell, contexts finite
    cell_sum: int  # [counted, A, d]: sums of features seen
    cell_count: int  # [counted]
    counts: int  # [K]
    pending_count: int  # [K, A]: steps whose context nobody has seen yet
    pending_total: int  # [K, A]: the sum of their rewards
    pending_seen: int  # [K]
    old_theta: int  # [d]: what the recommender froze, contexts not finite
    old_cov: int  # [d, stride]
    old_sum: int  # [counted, A, d]
    old_count: int  # [counted]
    kept_size: int

    # scratch
    x: int  # [A, d]: full features of the moment, contexts not finite
    corner: int  # [corners, d]: features that bound what could be sensed now
    blind: int  # [A, d]
    w: int  # [stride]
    ucb: int  # [A]
    # scratch of the optimistic search
    lower: int  # [K]
    upper: int  # [K]
    flat: int  # [K]: means of one action
    mixture: int  # [A, K]: the maximising probabilities of each action
    gram: int  # [K, K]
    work: int  # [SEARCH_ROWS + 2 K, K]
    size: int


# The places of a layout's entries: `at[THETA]` is where theta begins. In the order of `Layout`.
(
    D, ACTIONS, CONTEXTS, CELLS, SENSES, CORNERS, PROBABILITIES, TABLE, STRIDE, SUPPORT, COUNTED, ROWS,
    LISTS, COLUMNS, CELL_OF, SENSE_OF, START, DISTANCE, HIDDEN, FACTS_SIZE, THETA, COV, MEAN, WIDTH2, LOG_DET,
    RADIUS, OLD_RADIUS, STALE, CELL_SUM, CELL_COUNT, COUNTS, PENDING_COUNT, PENDING_TOTAL, PENDING_SEEN,
    OLD_THETA, OLD_COV, OLD_SUM, OLD_COUNT, KEPT_SIZE, X, CORNER, BLIND, W, UCB, LOWER, UPPER, FLAT, MIXTURE,
    GRAM, WORK, SIZE,
) = range(51)  # fmt: skip


def layout(
    *, d: int, actions: int, contexts: int, cells: int, senses: int = 0, corners: int = 0,
    probabilities: int = KNOWN, table: bool = True, lanes: int = WIDTH, support: int = 0,
) -> Layout:  # fmt: skip
    """The layout for a problem of these sizes.

    Rows that loops run along are padded with zeros to a multiple of `lanes` and begin at one (the table, of which
    two stretches are worked on together, at a multiple of two). Rows with at most `support` nonzero numbers are
    listed by these if that is at most half of them.
    """
    finite = contexts > 0
    block = actions * d
    known = probabilities == KNOWN
    blocks = contexts + (cells + senses if known and finite else 0)
    tabled = _padded(blocks * actions, 2 * lanes) if table and finite else 0
    stride = _padded(d, lanes)
    listed = support if finite and 2 * support <= d else 0
    counted = 0 if known else cells + senses
    pending = contexts if senses else 0
    old = 0 if finite else 1
    searched = contexts if probabilities == OPTIMISTIC else 0

    facts = _Cursor(FACTS_HEAD, lanes)
    s = _Cursor(0, lanes)
    return Layout(
        d=d, actions=actions, contexts=contexts, cells=cells, senses=senses, corners=corners,
        probabilities=probabilities, table=tabled, stride=stride, support=listed, counted=counted,
        rows=facts.take(blocks * block),
        lists=facts.take(blocks * block if listed else 0),
        columns=facts.take_row(d * tabled),
        cell_of=facts.take(contexts),
        sense_of=facts.take(contexts),
        start=facts.take((cells + senses) * block),
        distance=facts.take(cells * actions * actions if known and finite else 0),
        hidden=facts.take(d),
        facts_size=facts.take_row(0),
        theta=s.take_row(stride),
        cov=s.take_row(d * stride),
        mean=s.take_row(tabled),
        width2=s.take_row(tabled),
        log_det=s.take(1),
        radius=s.take(1),
        old_radius=s.take(1),
        stale=s.take(cells if finite else 0),
        cell_sum=s.take(counted * block),
        cell_count=s.take(counted),
        counts=s.take(contexts if counted else 0),
        pending_count=s.take(pending * actions),
        pending_total=s.take(pending * actions),
        pending_seen=s.take(pending),
        old_theta=s.take(old * d),
        old_cov=s.take(old * d * stride),
        old_sum=s.take(old * counted * block),
        old_count=s.take(old * counted),
        kept_size=s.at,
        x=s.take(old * block),
        corner=s.take(corners * d),
        blind=s.take(0 if known and finite else block),
        w=s.take_row(stride),
        ucb=s.take(actions),
        lower=s.take(searched),
        upper=s.take(searched),
        flat=s.take(searched),
        mixture=s.take(actions * searched),
        gram=s.take(searched * searched),
        work=s.take((SEARCH_ROWS + 2 * searched) * searched),
        size=s.take_row(0),
    )  # fmt: skip


def laid_out(size: int, parts: Iterable[tuple[int, Sequence[float] | NDArray[Any]]]) -> NDArray[np.float64]:
    """A flat array of zeros with each of the parts (place, numbers) put in its place."""
    array = np.zeros(size)
    for place, numbers in parts:
        array[place : place + len(numbers)] = numbers
    return array


def _padded(size: int, lanes: int) -> int:
    return -(-size // lanes) * lanes


class _Cursor:
    """Hands out consecutive stretches of a flat array."""

    def __init__(self, at: int, lanes: int) -> None:
        self.at = at
        self.lanes = lanes

    def take(self, size: int) -> int:
        begin = self.at
        self.at += size
        return begin

    def take_row(self, size: int) -> int:
        """A stretch that begins where a vector may."""
        self.at = _padded(self.at, self.lanes)
        return self.take(size)
