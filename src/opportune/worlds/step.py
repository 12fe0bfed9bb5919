"""The truth as step functions: who arrives, what comes of an action. One branch a kind of world.

A world is one flat array, `world`: a few numbers that every kind has, then what its kind says. Its draws come from
`core.rng`, so that every policy meets the same arrivals, noise and openings. `history` is the world's own state.
"""

from opportune.core import layout as L  # noqa: N812  (at[L.X]: where the moment's features lie)
from opportune.core.compiled import driver_function, inner_function
from opportune.core.rng import ANSWER, OPEN, ZERO, draw, normal
from opportune.worlds.brushing import step as brushing_step

LINEAR = 0
BRUSHING = 1

# The numbers that every world begins with.
NOISE_SD = 0
OPEN_RATE = 1
OPENS_DAILY = 2  # 1: an opening is drawn each morning and holds for the evening
RESPONSE_RATE = 3
MESSAGE_COST = 4
WORLD_HEAD = 5
# LINEAR goes on with cumulative context probabilities [K], <theta, phi[k, a]> [K, A], <theta, bar(z, a)> [Z, A];
# BRUSHING goes on with the parameters of worlds.brushing_step.
BRUSHING_END = WORLD_HEAD + brushing_step.PARAMS_SIZE


@driver_function
def start(kind, world, history):  # type: ignore[no-untyped-def]
    """Begin a run of the world."""
    if kind == BRUSHING:
        brushing_step.reset(world[WORLD_HEAD:BRUSHING_END], history)


@inner_function
def find_context(world, contexts, u):  # type: ignore[no-untyped-def]
    """The first context whose cumulative probability exceeds u: as many as there are that do not.

    Counting them all takes no longer than to stop at the right one, which a processor cannot foresee.
    """
    context = 0
    for k in range(contexts - 1):
        context += world[WORLD_HEAD + k] <= u
    return context


@inner_function
def arrive(kind, world, at, facts, s, history, step, arrival):  # type: ignore[no-untyped-def]
    """The moment of `step` (from 1): (context, public cell); features go into the state if not finite.

    `arrival` is the step's uniform for it.
    """
    if kind == BRUSHING:
        params = world[WORLD_HEAD:BRUSHING_END]
        shape = (at[L.ACTIONS], at[L.D])
        block = at[L.ACTIONS] * at[L.D]
        for i in range(at[L.CORNERS] // at[L.ACTIONS]):
            place = at[L.CORNER] + i * block
            brushing_step.corner(params, step - 1, i, s[place : place + block].reshape(shape))
        return 0, brushing_step.arrive(params, history, step - 1, s[at[L.X] : at[L.X] + block].reshape(shape))
    context = find_context(world, at[L.CONTEXTS], arrival)
    return context, int(facts[at[L.CELL_OF] + context]) if at[L.CELLS] > 1 else 0


@inner_function
def opens(world, seed, stream, step):  # type: ignore[no-untyped-def]
    """Whether the patient opens the app unasked."""
    if world[OPEN_RATE] <= 0.0:
        return False
    when = step - 1 + step % 2 if world[OPENS_DAILY] > 0.0 else step  # step, or its morning's
    return draw(seed, stream, when, OPEN) < world[OPEN_RATE]


@inner_function
def answers(world, seed, stream, step):  # type: ignore[no-untyped-def]
    """Whether the patient answers a nudge."""
    return world[RESPONSE_RATE] >= 1.0 or draw(seed, stream, step, ANSWER) < world[RESPONSE_RATE]


@inner_function
def respond(kind, world, at, s, history, seed, stream, step, context, action, noise):  # type: ignore[no-untyped-def]
    """What comes of an action: (reward to learn from, outcome in the world's own unit); `noise` is a uniform."""
    if kind == BRUSHING:
        zero = draw(seed, stream, step, ZERO)
        x = s[at[L.X] : at[L.X] + at[L.ACTIONS] * at[L.D]].reshape((at[L.ACTIONS], at[L.D]))
        outcome = brushing_step.outcome(world[WORLD_HEAD:BRUSHING_END], x, action, zero, noise)
        brushing_step.advance(world[WORLD_HEAD:BRUSHING_END], history, step - 1, outcome)
        return (outcome - world[MESSAGE_COST] * action) / brushing_step.CAP, outcome
    mean = world[WORLD_HEAD + at[L.CONTEXTS] + context * at[L.ACTIONS] + action]
    return mean + world[NOISE_SD] * normal(noise), mean


@inner_function
def blind_value(world, at, cell, action):  # type: ignore[no-untyped-def]
    """<theta, bar(z, a)> of a linear world."""
    return world[WORLD_HEAD + at[L.CONTEXTS] + (at[L.CONTEXTS] + cell) * at[L.ACTIONS] + action]
