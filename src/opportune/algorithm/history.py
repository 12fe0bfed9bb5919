"""Variables of a participant's own history, computed from the record at the time of the decision.

`p.past` contains the latest decision points in a ring indexed by step. `write_history` writes the history variables
into a moment's values, before features are computed; `record_decision` and `record_reward` store events. A reward
counts from its arrival, with any correction.
"""

from opportune.engine.compiled import inner_function, step_function

# The events that a history variable summarises.
REWARD = 0
NUDGES = 1
ANSWERED = 2  # nudges that were answered
OPENED = 3  # openings unasked
CONTACT = 4  # either of the two

# The kinds of summary.
MEAN = 0
SUM = 1
DAYS_SINCE = 2

# The description of a history variable in `constants.history`, one row each.
VARIABLE = 0  # its index among the moment's values
OF = 1
SUMMARY = 2
DECISIONS = 3  # the number of decision points that it looks back
DISCOUNT = 4
LOW = 5
HIGH = 6
INITIAL = 7
PER_DAY = 8  # decisions per day
FIELDS = 9


@step_function
def write_history(n, constants, past, values, step):  # type: ignore[no-untyped-def]
    """Write the history variables of a decision point that is not settled yet."""
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
    """The sum or mean over earlier decision points, the latest first; `initial` if nothing is on record."""
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
    """The recorded value of an event at a decision point."""
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
    """Record a settled or missing decision point; its reward has not arrived yet."""
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
    """Record the arrival or correction of a step's reward."""
    place = step % n.past
    if past.step[place] == step:
        past.reward[place] = reward
        past.rewarded[place] = 1.0
