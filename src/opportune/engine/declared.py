"""The numbers of a run: each is declared once; offsets, named views, reset and saved states are generated.

A run's numbers are in a few flat arrays. Each array contains *groups*, each group *parts*: `p.model.theta[i]` is a
number of the part `theta` of the group `model`. Groups are NamedTuples; a part's annotation contains its dimensions
and, if saved states should be checked for it, the range of its numbers. The groups below exist in every run. Revealers,
recommenders and worlds declare their own (`Declares`), which compiled code sees as `own.settings`, `own.state` and so
on. `engine.sizes` defines the sizes that name dimensions; `engine.layout` assigns every part its place.

Participants who share a budget or a model get the same array.

Feature vectors come in blocks, one vector per action. Block k of `rows` is context k; if probabilities are known, one
block per public stratum follows (blind features) and, with reported variables, one per sensed part.
"""

import functools
import math
from typing import Annotated, Any, NamedTuple, get_type_hints

# The agents' knowledge of the context distribution.
KNOWN = 0
PLUGIN = 1
OPTIMISTIC = 2

# The kinds of confidence radius: the paper's, for all steps and actions at once; or a smaller one (algorithm.model).
UNIFORM = 0
POINTWISE = 1

# How a recommender's actions arise: one with certainty, a mixture that it writes down, equal coins; or by its own
# draws, with unknown probabilities of actions.
CERTAIN = 0
MIXED = 1
EQUAL = 2
UNTOLD = 3

# The scaling of gaps: by a constant (`range`, `gap`) or by the revealer's current largest gap (`adaptive`).
CONSTANT = 0
ADAPTIVE = 1

# The views of a moment, which are the rows of its masks (algorithm.masks).
PUBLIC_PART = 0
SENSED_PART = 1
WHOLE = 2
VIEWS = 3

# The distribution of rewards around their linear mean (worlds.common).
GAUSSIAN = 0
BINARY = 1
COUNTED = 2

EVENTS = 5  # kinds of events that history variables summarise (algorithm.history)
STAFF_DAYS = 4  # staff days whose nudges are counted: time zones have at most three dates at one time
BESIDE_CHANCES = 2  # numbers after the probabilities of actions: the draw and the intended action

SEARCH_ROWS = 12  # rows of scratch space of the optimistic search, in addition to two for each context
MOST_PARTS = 15  # the most parts in one group of a rule or a world

Numbers = Any  # float64 numbers: an address on the CPU, an array on a GPU and in the simulator


class Range(NamedTuple):
    """The valid range of a part's numbers; `most` may name a limit that saved states are checked against."""

    least: float = -math.inf
    most: float | str = math.inf
    whole: bool = False


NOT_NEGATIVE = Range(0.0)
SHARE = Range(0.0, 1.0)
COUNT = Range(0.0, "decisions", whole=True)  # at most the number of decisions so far
AMOUNT = Range(0.0, "decisions")
ACTION = Range(0.0, "last_action", whole=True)
STRATUM = Range(0.0, "last_stratum", whole=True)


class Constants(NamedTuple):
    """What both agents know beforehand about a problem."""

    noise: Annotated[Numbers, 1]  # R
    regularisation: Annotated[Numbers, 2, "d"]  # Lambda's diagonal (lam for all by default), by kind of radius
    prior: Annotated[Numbers, 2]  # a bound on the distance of theta from mu in the norm of Lambda: sqrt(lam) W
    prior_mean: Annotated[Numbers, "d"]  # mu
    confidence: Annotated[Numbers, 1]  # 2 ln(1/delta)
    delta: Annotated[Numbers, 1]
    horizon: Annotated[Numbers, 1]  # T
    rows: Annotated[Numbers, "blocks", "actions", "d"]
    lists: Annotated[Numbers, "listed", "actions", "d"]  # indices of each row's nonzero numbers, then these numbers
    columns: Annotated[Numbers, "d", "table"]  # the rows transposed
    stratum_of: Annotated[Numbers, "contexts"]
    sense_of: Annotated[Numbers, "contexts"]
    stratum_of_sense: Annotated[Numbers, "parts"]
    sense_probability: Annotated[Numbers, "parts"]
    start: Annotated[Numbers, "means", "actions", "d"]  # means before any count (or at all times, if known)
    distance: Annotated[Numbers, "distances", "actions", "actions"]  # between two actions' blind features, if rows
    hidden: Annotated[Numbers, "moment", "d"]  # 1 if a coordinate is not public, contexts not finite
    unsensed: Annotated[Numbers, "moment", "d"]  # 1 where a coordinate depends on something reported
    weight: Annotated[Numbers, "variables"]  # what a variable's level adds to the number of its stratum
    corner: Annotated[Numbers, "corners", "variables"]  # extreme values; NaN where the moment's own value applies
    code: Annotated[Numbers, "code"]  # the feature program: see algorithm.features
    atom_end: Annotated[Numbers, "atoms"]
    factor: Annotated[Numbers, "moment", "d", "factors"]
    forbidden: Annotated[Numbers, "masks", "actions"]  # contexts finite, some actions forbidden: see algorithm.masks
    condition: Annotated[Numbers, "condition"]  # otherwise, the conditions that forbid them
    condition_end: Annotated[Numbers, "conditions"]
    doubt: Annotated[Numbers, "conditions"]  # the least truth value at which a condition forbids its action
    sight: Annotated[Numbers, "sighted"]  # who sees each variable
    history: Annotated[Numbers, "histories", 9]  # of history variables: see algorithm.history


class Rule(NamedTuple):
    """A policy as numbers, for one problem and horizon; revealer and recommender have their own settings."""

    revealer: Annotated[Numbers, 1]  # its number in the registry
    recommender: Annotated[Numbers, 1]  # its number in the registry
    amount: Annotated[Numbers, 1]  # B
    hard: Annotated[Numbers, 1]
    counted: Annotated[Numbers, 1]  # 1: nudges made are charged, instead of their probabilities
    growth: Annotated[Numbers, 1]  # c = (1 + 1/B)^B
    decisions: Annotated[Numbers, 1]  # the number of decisions that the budget is for
    sharers: Annotated[Numbers, 1]  # the number of participants that it is for
    member: Annotated[Numbers, 1]  # this participant's number among them
    radius: Annotated[Numbers, 1]  # UNIFORM, POINTWISE
    prior_every: Annotated[Numbers, 1]  # decision times between two updates of mu and tau; 0: no updates
    kappa: Annotated[Numbers, 1]  # multiplies the radius in the choice of actions
    chances: Annotated[Numbers, 1]  # CERTAIN, MIXED, EQUAL, UNTOLD
    floor: Annotated[Numbers, 1]  # eps, the least probability of every allowed action; 0: none
    scaling: Annotated[Numbers, 1]  # CONSTANT, ADAPTIVE
    scale: Annotated[Numbers, 1]
    run_in: Annotated[Numbers, 1]  # decision points without nudges at the beginning
    run_in_equal: Annotated[Numbers, 1]  # 1: actions in the run-in are drawn, each equally likely
    run_in_action: Annotated[Numbers, 1]  # otherwise this action is taken
    per_week: Annotated[Numbers, 1]  # the most nudges for one participant in any seven days; 0: no limit
    least_hours_between: Annotated[Numbers, 1]  # between two nudges for one participant
    per_day: Annotated[Numbers, 1]  # the most nudges that staff can make in a day; 0: no limit


class Model(NamedTuple):
    """The learned model of the reward: one per participant, or one for all of them (`pooled`).

    With random effects it also contains the shared prior and sums of the observations.
    """

    theta: Annotated[Numbers, "stride"]
    cov: Annotated[Numbers, "d", "stride"]  # V^-1
    mean: Annotated[Numbers, "table"]  # <x, theta> of every row
    width2: Annotated[Numbers, "table"]  # x' V^-1 x of every row
    log_det: Annotated[Numbers, 1, Range(-1e-9)]  # ln det V - ln det Lambda
    radius: Annotated[Numbers, 1, NOT_NEGATIVE]
    centre: Annotated[Numbers, "random", "stride"]  # mu
    precision: Annotated[Numbers, "random", "stride", NOT_NEGATIVE]  # Lambda's diagonal
    gram: Annotated[Numbers, "random", "d", "stride"]  # sum x x'
    moment: Annotated[Numbers, "random", "stride"]  # sum x X


class Counts(NamedTuple):
    """The contexts that one participant's revealer has seen, and the steps that wait for a reveal."""

    total: Annotated[Numbers, "counted", "actions", "d"]  # sums of the features seen
    count: Annotated[Numbers, "counted"]
    seen: Annotated[Numbers, "tallied"]  # how often each context was seen
    pending_seen: Annotated[Numbers, "pending"]  # steps whose context nobody has seen yet
    pending_count: Annotated[Numbers, "pending", "actions"]  # those of them with a reward
    pending_total: Annotated[Numbers, "pending", "actions"]  # the sum of these rewards
    held_values: Annotated[Numbers, "held", "variables"]  # pending steps if contexts are not finite, one per row
    held_action: Annotated[Numbers, "held"]
    held_state: Annotated[Numbers, "held"]  # 0: nothing held, 1: pending, 2: pending with a reward
    held_reward: Annotated[Numbers, "held"]
    held_until: Annotated[Numbers, 1]  # steps up to here may be held


class Snapshot(NamedTuple):
    """The recommender's knowledge, frozen at the last reveal: enough for any recommender until the next one."""

    theta: Annotated[Numbers, "stride"]
    cov: Annotated[Numbers, "d", "stride"]
    radius: Annotated[Numbers, 1, NOT_NEGATIVE]
    total: Annotated[Numbers, "counted", "actions", "d"]
    count: Annotated[Numbers, "counted", NOT_NEGATIVE]
    mean: Annotated[Numbers, "kept"]  # <bar(z, a), theta> of every blind row, if the table stores scores
    width2: Annotated[Numbers, "kept"]  # bar' cov bar of these rows


class Contacts(NamedTuple):
    """The participant's contacts and the points to come."""

    last_reveal: Annotated[Numbers, 1, COUNT]  # its step; 0: none yet
    since: Annotated[Numbers, 1, COUNT]  # steps settled without a reveal since
    opened: Annotated[Numbers, 1, COUNT]  # steps at which the app was opened unasked
    foreseen: Annotated[Numbers, 1, NOT_NEGATIVE]  # future decision points whose calendar is known
    open_left: Annotated[Numbers, 1, NOT_NEGATIVE]  # those of them that the calendar leaves open
    made: Annotated[Numbers, 1, COUNT]  # nudges, if the policy has limits
    made_at: Annotated[Numbers, "remembered"]  # hours of the latest ones, in a ring


class Past(NamedTuple):
    """The record of a participant's latest decision points, for history variables; step t has index t % past."""

    step: Annotated[Numbers, "past", COUNT]
    rewarded: Annotated[Numbers, "past", SHARE]  # 1: the reward has arrived
    reward: Annotated[Numbers, "past"]
    nudged: Annotated[Numbers, "past", SHARE]
    answered: Annotated[Numbers, "past", SHARE]
    opened: Annotated[Numbers, "past", SHARE]
    latest: Annotated[Numbers, "followed", COUNT]  # the latest step with each kind of event; 0: none yet


class Budget(NamedTuple):
    """The spending: one per participant, or one for all of them (`shared`)."""

    price: Annotated[Numbers, 1, NOT_NEGATIVE]
    spent: Annotated[Numbers, 1, AMOUNT]
    nudges: Annotated[Numbers, 1, COUNT]
    points: Annotated[Numbers, 1]  # decision points so far
    opened: Annotated[Numbers, 1, COUNT]  # those at which the app was opened unasked
    foregone: Annotated[Numbers, 1]  # decision points that will not happen, as their participants have left
    open: Annotated[Numbers, 1, COUNT]  # decision points so far that the calendar left open
    capped: Annotated[Numbers, 1, COUNT]  # those of them at which a cap was reached
    foreseen: Annotated[Numbers, 1, NOT_NEGATIVE]  # future decision points whose calendar is known
    open_left: Annotated[Numbers, 1, NOT_NEGATIVE]  # those of them that the calendar leaves open


class Staff(NamedTuple):
    """The nudges of the latest days: of one participant, or of all if staff have a daily limit."""

    day: Annotated[Numbers, STAFF_DAYS, Range(whole=True)]
    nudges_made: Annotated[Numbers, STAFF_DAYS, COUNT]


class Scratch(NamedTuple):
    """Scratch space; only the moment's values and features survive a call, within a step."""

    values: Annotated[Numbers, "variables"]
    other: Annotated[Numbers, "variables"]  # the values of another moment
    atom: Annotated[Numbers, "atom_room"]
    x: Annotated[Numbers, "moment", "actions", "d"]  # full features of the moment, contexts not finite
    y: Annotated[Numbers, "moment", "actions", "d"]  # the features of another moment
    blind: Annotated[Numbers, "averaged", "actions", "d"]
    w: Annotated[Numbers, "stride"]
    ucb: Annotated[Numbers, "actions"]
    forbidden: Annotated[Numbers, "moment_masks", "actions"]  # masks of the moment and of another, contexts not finite
    truth: Annotated[Numbers, "truths"]
    centre: Annotated[Numbers, "random", "stride"]  # sums over participants, for mu
    spread: Annotated[Numbers, "random", "stride"]  # and for tau
    declined: Annotated[Numbers, 1]  # the revealer's own reason why no nudge is possible
    chance: Annotated[Numbers, "chances"]  # probabilities of actions, the draw, the intended action: algorithm.chances
    # the optimistic search
    lower: Annotated[Numbers, "searched"]
    upper: Annotated[Numbers, "searched"]
    flat: Annotated[Numbers, "searched"]  # the means of one action
    mixture: Annotated[Numbers, "actions", "searched"]  # the maximising probabilities of each action
    gram: Annotated[Numbers, "searched", "searched"]
    work: Annotated[Numbers, "search_rows", "searched"]


class Proposed(NamedTuple):
    """The results of a live agent's proposal, kept until the step is settled."""

    gap: Annotated[Numbers, 1]
    price: Annotated[Numbers, 1]
    probability: Annotated[Numbers, 1]
    tolerance: Annotated[Numbers, 1]
    disagreement: Annotated[Numbers, 1]
    fresh_action: Annotated[Numbers, 1]
    stale_action: Annotated[Numbers, 1]  # the action intended without a reveal
    standing_action: Annotated[Numbers, 1]  # the action drawn in its place
    nudged: Annotated[Numbers, 1]
    reason: Annotated[Numbers, 1]


class Happenings(NamedTuple):
    """A world's effect on decision points and rewards: see worlds.common."""

    kind: Annotated[Numbers, 1]  # the world's number in the registry
    open_rate: Annotated[Numbers, "strata"]
    opens_hold: Annotated[Numbers, 1]  # an opening lasts for this many consecutive steps (those of a day)
    response_rate: Annotated[Numbers, "strata"]
    response_spread: Annotated[Numbers, 1]
    habituation: Annotated[Numbers, 1]
    available_rate: Annotated[Numbers, 1]
    spell_rate: Annotated[Numbers, 1]
    spell_days: Annotated[Numbers, 1]
    spell_silent: Annotated[Numbers, 1]  # 1: nobody knows that the participant is away; no nudge is answered
    decisions_per_day: Annotated[Numbers, 1]
    reward_rate: Annotated[Numbers, 1]
    reward_delay: Annotated[Numbers, 1]
    family: Annotated[Numbers, 1]  # GAUSSIAN, BINARY, COUNTED
    bends: Annotated[Numbers, 1]  # 1: the expected reward differs from the linear mean
    least_reward: Annotated[Numbers, 1]
    most_reward: Annotated[Numbers, 1]


class Lately(NamedTuple):
    """The recent past of a simulated participant."""

    nudged: Annotated[Numbers, "habituated"]  # 1 at a decision point with a nudge; step t has index t % habituated
    nudges: Annotated[Numbers, 1]  # the sum of these
    context: Annotated[Numbers, 1]  # 1 + the last step's context, if contexts may persist; 0 before the first


class Calendar(NamedTuple):
    """The times of a simulated participant's decision points, and whether staff and participant allow nudges there."""

    start: Annotated[Numbers, 1]  # the slot of the first decision point, which sets the order of participants
    closed: Annotated[Numbers, "timed"]
    hours: Annotated[Numbers, "timed"]
    day: Annotated[Numbers, "timed"]
    open_left: Annotated[Numbers, "timed"]  # open points from here on


class Mail(NamedTuple):
    """Rewards in transit in a simulation: one row per decision point."""

    came: Annotated[Numbers, "letters"]  # the step at whose end the reward arrives; 0: none
    due: Annotated[Numbers, "letters"]  # and the step at whose end it is learned from
    step: Annotated[Numbers, "letters"]
    stratum: Annotated[Numbers, "letters"]
    sense: Annotated[Numbers, "letters"]
    context: Annotated[Numbers, "letters"]
    action: Annotated[Numbers, "letters"]
    seen: Annotated[Numbers, "letters"]
    reward: Annotated[Numbers, "letters"]
    values: Annotated[Numbers, "letters", "variables"]


class Nothing(NamedTuple):
    """A group without parts."""


class Declares(NamedTuple):
    """The groups that a revealer, a recommender or a world declares.

    `settings` are what people choose, as numbers; `state` is the memory about a participant (of a world: its own past),
    saved with the participant and 0 at the start; `shared` is what participants with a common budget share; `scratch`
    does not survive a call; `notes` are the numbers behind a revealer's decision, for explanations.
    """

    settings: type = Nothing
    state: type = Nothing
    shared: type = Nothing
    scratch: type = Nothing
    notes: type = Nothing


class Owner(NamedTuple):
    """A declaring rule or world, with the lengths of its dimensions."""

    declares: Declares = Declares()
    extents: tuple[tuple[str, int], ...] = ()


class Owners(NamedTuple):
    """The rules and the world of a run."""

    revealer: Owner = Owner()
    recommender: Owner = Owner()
    world: Owner = Owner()


ARRAYS: dict[str, dict[str, type | None]] = {
    "constants": {"constants": Constants},
    "rule": {"rule": Rule, "revealer.settings": None, "recommender.settings": None},
    "model": {"model": Model},
    "counts": {"counts": Counts},
    "snapshot": {"snapshot": Snapshot},
    "memory": {"contacts": Contacts, "past": Past, "revealer.state": None, "recommender.state": None},
    "budget": {"budget": Budget, "revealer.shared": None},
    "staff": {"staff": Staff},
    "scratch": {
        "scratch": Scratch, "proposed": Proposed, "revealer.scratch": None, "revealer.notes": None,
        "recommender.scratch": None,
    },
    "world": {"happenings": Happenings, "calendar": Calendar, "world.settings": None},
    "history": {"lately": Lately, "mail": Mail, "world.state": None},
}  # fmt: skip
"""The groups of each array; None stands for an owner's own declaration."""
GROUPS: dict[str, type | None] = {name: declared for groups in ARRAYS.values() for name, declared in groups.items()}
ARRAY_OF: dict[str, str] = {name: array for array, groups in ARRAYS.items() for name in groups}
STATE = ("model", "counts", "snapshot", "memory", "budget", "staff")
"""The arrays of a participant's state."""


@functools.cache
def parts_of(declared: type) -> dict[str, tuple[str | int, ...]]:
    """The declared dimensions of each part of a group."""
    return {
        name: tuple(each for each in hint.__metadata__ if not isinstance(each, Range))
        for name, hint in get_type_hints(declared, include_extras=True).items()
    }


@functools.cache
def ranges_of(declared: type) -> dict[str, Range]:
    """The ranges of those parts of a group that have one."""
    hints = get_type_hints(declared, include_extras=True).items()
    found = {name: [each for each in hint.__metadata__ if isinstance(each, Range)] for name, hint in hints}
    return {name: ranges[0] for name, ranges in found.items() if ranges}
