"""Variables of a participant's own history: computed from what is on record when the decision is made.

`p.past` keeps the latest decision points, a ring by step. `write_history` writes the history variables among a moment's
values, before features are written; `record_decision` and `record_reward` keep what happened. A reward counts from when
it arrives, a corrected one as corrected.
"""

from opportune.engine.compiled import inner_function, step_function

# What a history variable is of.
REWARD = 0
NUDGES = 1
ANSWERED = 2  # nudges that were answered
OPENED = 3  # openings unasked
CONTACT = 4  # either of the two

# How it sums that up.
MEAN = 0
SUM = 1
DAYS_SINCE = 2

# What describes a history variable in `constants.history`, a row each.
VARIABLE = 0  # its place among the moment's values
OF = 1
SUMMARY = 2
DECISIONS = 3  # how far back it looks
DISCOUNT = 4
LOW = 5
HIGH = 6
INITIAL = 7
PER_DAY = 8  # decisions per day
FIELDS = 9


@step_function
def write_history(n, constants, past, values, step):  # type: ignore[no-untyped-def]
    """The history variables at a decision point that is not settled yet."""
    for h in range(n.histories):
        row = h * FIELDS
        given = constants.history
        found = given[row + INITIAL]
        if given[row + SUMMARY] == DAYS_SINCE:
            last = past.latest[int(given[row + OF])]
            if last > 0.0:
                found = (step - last) / given[row + PER_DAY]
        else:
            found = summed_up(n, past, int(given[row + OF]), given[row + SUMMARY] == MEAN,
                              int(given[row + DECISIONS]), given[row + DISCOUNT], step, found)  # fmt: skip
        values[int(given[row + VARIABLE])] = min(max(found, given[row + LOW]), given[row + HIGH])


@inner_function
def summed_up(n, past, of, averaged, decisions, discount, step, initial):  # type: ignore[no-untyped-def]
    """The sum or mean over the decision points before, the latest first; `initial` if nothing is on record there."""
    total, weights, weight = 0.0, 0.0, 1.0
    for earlier in range(step - 1, max(0, step - 1 - decisions), -1):
        place = earlier % n.past
        if past.step[place] == earlier and (of != REWARD or past.rewarded[place] > 0.0):
            total += weight * event(past, of, place)
            weights += weight
        weight *= discount
    if weights <= 0.0:
        return initial
    return total / weights if averaged else total


@inner_function
def event(past, of, place):  # type: ignore[no-untyped-def]
    """What is on record of a decision point."""
    if of == REWARD:
        return past.reward[place]
    if of == NUDGES:
        return past.nudged[place]
    if of == ANSWERED:
        return past.answered[place]
    if of == OPENED:
        return past.opened[place]
    return past.answered[place] + past.opened[place]


@step_function
def record_decision(n, past, step, nudged, revealed):  # type: ignore[no-untyped-def]
    """A decision point is settled, or was missing; its reward is not there yet."""
    place = step % n.past
    past.step[place] = step
    past.reward[place] = 0.0
    past.rewarded[place] = 0.0
    past.nudged[place] = nudged
    past.answered[place] = nudged and revealed
    past.opened[place] = revealed and not nudged
    if nudged:
        past.latest[NUDGES] = step
    if revealed:
        past.latest[ANSWERED if nudged else OPENED] = step
        past.latest[CONTACT] = step


@step_function
def record_reward(n, past, step, reward):  # type: ignore[no-untyped-def]
    """The reward of a step arrives, or turns out to be another."""
    place = step % n.past
    if past.step[place] == step:
        past.reward[place] = reward
        past.rewarded[place] = 1.0
