"""One decision and what follows from it (SPEC section 3): `begin`, `propose`, `toss`, `settle`, `learn`.

The revealer's knowledge is `theta`, `cov` and the score table. What the recommender froze at the last reveal is
its blind action in each public cell (`stale`) where contexts are a finite set, and a copy of the estimates
(`old_*`) where they are not.

A context enters in one of two ways. Finite: an index into the feature rows. Otherwise: the features of the moment,
written into the state at `x`, and the public cell. Scores come from the table or are computed on the spot; the rule
does not know which. `at`, `facts` and `s` are the layout, the facts and the state of core.state.
"""

import math

from opportune.core import layout as L  # noqa: N812  (at[L.THETA]: where theta lies)
from opportune.core.compiled import driver_function, inner_function, step_function
from opportune.core.layout import ADAPTIVE, KNOWN, OPTIMISTIC, PURSE_SIZE, RANDOM, TIE, Proposal
from opportune.core.model import best, largest_in_table, observe, reset, score, set_radius
from opportune.core.optimistic import bernstein_box, optimistic, work_rows
from opportune.core.reveal import LEARNING_PRIMAL_DUAL, PRIMAL_DUAL, next_price, reveal_probability

LEAST_SCALE = 1e-12


@inner_function
def score_block(at, facts, s, block):  # type: ignore[no-untyped-def]
    """Write the revealer's ucb of each action in a block of feature rows to s[ucb:]."""
    radius = s[at[L.RADIUS]]
    ucb, first = at[L.UCB], block * at[L.ACTIONS]
    if at[L.TABLE] > 0:
        mean, width2 = at[L.MEAN] + first, at[L.WIDTH2] + first
        for a in range(at[L.ACTIONS]):
            s[ucb + a] = s[mean + a] + radius * math.sqrt(max(s[width2 + a], 0.0))
    else:
        rows = at[L.ROWS] + first * at[L.D]
        for a in range(at[L.ACTIONS]):
            s[ucb + a] = score(at, s, at[L.THETA], at[L.COV], radius, at[L.SUPPORT], facts, rows + a * at[L.D])


@step_function
def score_moment(at, s, features, theta, cov, radius):  # type: ignore[no-untyped-def]
    """The same for feature vectors that lie in the state at s[features:], under the estimates given."""
    for a in range(at[L.ACTIONS]):
        s[at[L.UCB] + a] = score(at, s, theta, cov, radius, 0, s, features + a * at[L.D])


@step_function
def write_cell_features(at, facts, s, cell, sums, counts):  # type: ignore[no-untyped-def]
    """E[phi(S, a) | cell] for each action, written to s[blind:]: running means, before any `start`.

    Where contexts are not finite, only hidden coordinates are averaged; the rest is public and stands at s[x:].
    """
    learned = at[L.COUNTED] > 0 and s[counts + cell] > 0.0
    for a in range(at[L.ACTIONS]):
        for i in range(at[L.D]):
            j = a * at[L.D] + i
            if at[L.CONTEXTS] == 0 and facts[at[L.HIDDEN] + i] == 0.0:
                s[at[L.BLIND] + j] = s[at[L.X] + j]
            elif learned:
                s[at[L.BLIND] + j] = s[sums + cell * at[L.ACTIONS] * at[L.D] + j] / s[counts + cell]
            else:
                s[at[L.BLIND] + j] = facts[at[L.START] + cell * at[L.ACTIONS] * at[L.D] + j]


@inner_function
def score_blind(at, facts, s, cell):  # type: ignore[no-untyped-def]
    """Write ucb(bar(z, a)) under the revealer's knowledge to s[ucb:].

    Where the blind features are not rows, they are left at s[blind:].
    """
    if at[L.CONTEXTS] > 0 and at[L.PROBABILITIES] == KNOWN:
        score_block(at, facts, s, at[L.CONTEXTS] + cell)
    else:
        score_blind_now(at, facts, s, cell)


@step_function
def score_blind_now(at, facts, s, cell):  # type: ignore[no-untyped-def]
    """The same where blind features must be worked out first: contexts not finite, or probabilities unknown."""
    if at[L.PROBABILITIES] == OPTIMISTIC:
        score_optimistic(at, facts, s)
    else:
        write_cell_features(at, facts, s, cell, at[L.CELL_SUM], at[L.CELL_COUNT])
        score_moment(at, s, at[L.BLIND], at[L.THETA], at[L.COV], s[at[L.RADIUS]])


@step_function
def score_optimistic(at, facts, s):  # type: ignore[no-untyped-def]
    """Write max over theta and p of <sum_k p_k phi(k, a), theta> to s[ucb:] (SPEC section 8, `optimistic`).

    Leaves at s[blind:] every action's features under the p that flatters the best action most.
    """
    k = at[L.CONTEXTS]
    lower, upper = s[at[L.LOWER] : at[L.LOWER] + k], s[at[L.UPPER] : at[L.UPPER] + k]
    mean, gram = s[at[L.FLAT] : at[L.FLAT] + k], s[at[L.GRAM] : at[L.GRAM] + k * k].reshape((k, k))
    work = s[at[L.WORK] : at[L.WORK] + work_rows(k) * k].reshape((work_rows(k), k))
    bernstein_box(
        s[at[L.COUNTS] : at[L.COUNTS] + k],
        s[at[L.CELL_COUNT]],
        facts[L.DELTA],
        facts[L.HORIZON],
        lower,
        upper,
    )
    for a in range(at[L.ACTIONS]):
        write_gram(at, facts, s, a, mean, gram)
        p = s[at[L.MIXTURE] + a * k : at[L.MIXTURE] + (a + 1) * k]
        s[at[L.UCB] + a] = optimistic(mean, gram, s[at[L.RADIUS]], lower, upper, p, work)
    best_action = best(at, s)[1]
    for j in range(at[L.ACTIONS] * at[L.D]):
        s[at[L.BLIND] + j] = 0.0
        for i in range(k):
            p_i = s[at[L.MIXTURE] + best_action * k + i]
            s[at[L.BLIND] + j] += p_i * facts[at[L.ROWS] + i * at[L.ACTIONS] * at[L.D] + j]


@step_function
def write_gram(at, facts, s, action, mean, gram):  # type: ignore[no-untyped-def]
    """Means m = Phi_a theta and gram matrix G = Phi_a V^-1 Phi_a' of one action's feature vectors, a context each."""
    stride = at[L.ACTIONS] * at[L.D]
    for i in range(at[L.CONTEXTS]):
        x = at[L.ROWS] + i * stride + action * at[L.D]
        mean[i] = 0.0
        for j in range(at[L.D]):
            mean[i] += facts[x + j] * s[at[L.THETA] + j]
            s[at[L.W] + j] = 0.0
            for h in range(at[L.D]):
                s[at[L.W] + j] += s[at[L.COV] + j * at[L.STRIDE] + h] * facts[x + h]
        for other in range(i + 1):
            y = at[L.ROWS] + other * stride + action * at[L.D]
            total = 0.0
            for j in range(at[L.D]):
                total += s[at[L.W] + j] * facts[y + j]
            gram[i, other] = total
            gram[other, i] = total


@step_function
def score_sense(at, facts, s, sense):  # type: ignore[no-untyped-def]
    """Write ucb(sen(q, a)) of a sensed cell to s[ucb:], with reported variables. Overwrites s[blind:]."""
    if at[L.PROBABILITIES] == KNOWN:
        score_block(at, facts, s, at[L.CONTEXTS] + at[L.CELLS] + sense)
    else:
        write_cell_features(at, facts, s, at[L.CELLS] + sense, at[L.CELL_SUM], at[L.CELL_COUNT])
        score_moment(at, s, at[L.BLIND], at[L.THETA], at[L.COV], s[at[L.RADIUS]])


@inner_function
def score_sensed(at, facts, s, context):  # type: ignore[no-untyped-def]
    """Write ucb(sen(q, a)) of the moment to s[ucb:]."""
    if at[L.CONTEXTS] == 0:
        score_moment(at, s, at[L.X], at[L.THETA], at[L.COV], s[at[L.RADIUS]])
    elif at[L.SENSES] == 0:
        score_block(at, facts, s, context)
    else:
        score_sense(at, facts, s, int(facts[at[L.SENSE_OF] + context]))


@step_function
def largest_sensed(at, facts, s):  # type: ignore[no-untyped-def]
    """max_q u(q): the best score of any context that could be sensed. Overwrites s[ucb:] and s[blind:]."""
    top = -math.inf
    if at[L.CONTEXTS] == 0:
        for i in range(at[L.CORNERS]):
            place = at[L.CORNER] + i * at[L.D]
            top = max(top, score(at, s, at[L.THETA], at[L.COV], s[at[L.RADIUS]], 0, s, place))
    elif at[L.SENSES] > 0:
        for q in range(at[L.SENSES]):
            score_sense(at, facts, s, q)
            top = max(top, best(at, s)[0])
    elif at[L.TABLE] > 0:
        top = largest_in_table(at, s, 0, at[L.CONTEXTS] * at[L.ACTIONS])
    else:
        for k in range(at[L.CONTEXTS]):
            score_block(at, facts, s, k)
            top = max(top, best(at, s)[0])
    return top


@inner_function
def find_stale(at, facts, s, cell):  # type: ignore[no-untyped-def]
    """A_stale: the blind action under what the recommender froze at the last reveal. Overwrites s[blind:]."""
    if at[L.CONTEXTS] > 0:
        return int(s[at[L.STALE] + cell])
    write_cell_features(at, facts, s, cell, at[L.OLD_SUM], at[L.OLD_COUNT])
    score_moment(at, s, at[L.BLIND], at[L.OLD_THETA], at[L.OLD_COV], s[at[L.OLD_RADIUS]])
    return best(at, s)[1]


@step_function
def blind_distance(at, facts, s, cell, action, other):  # type: ignore[no-untyped-def]
    """The disagreement n = ||bar(z, action) - bar(z, other)|| by the revealer's blind features."""
    if at[L.CONTEXTS] > 0 and at[L.PROBABILITIES] == KNOWN:
        return facts[at[L.DISTANCE] + (cell * at[L.ACTIONS] + action) * at[L.ACTIONS] + other]
    total = 0.0
    for i in range(at[L.D]):
        difference = s[at[L.BLIND] + action * at[L.D] + i] - s[at[L.BLIND] + other * at[L.D] + i]
        total += difference * difference
    return math.sqrt(total)


@step_function
def take_over(at, facts, s):  # type: ignore[no-untyped-def]
    """The recommender takes over the revealer's knowledge of this moment and keeps it until the next reveal."""
    if at[L.CONTEXTS] > 0:
        for cell in range(at[L.CELLS]):
            score_blind(at, facts, s, cell)
            s[at[L.STALE] + cell] = best(at, s)[1]
        return
    s[at[L.OLD_RADIUS]] = s[at[L.RADIUS]]
    for i in range(at[L.D]):
        s[at[L.OLD_THETA] + i] = s[at[L.THETA] + i]
    for i in range(at[L.D] * at[L.STRIDE]):
        s[at[L.OLD_COV] + i] = s[at[L.COV] + i]
    for i in range(at[L.COUNTED]):
        s[at[L.OLD_COUNT] + i] = s[at[L.CELL_COUNT] + i]
    for i in range(at[L.COUNTED] * at[L.ACTIONS] * at[L.D]):
        s[at[L.OLD_SUM] + i] = s[at[L.CELL_SUM] + i]


@driver_function
def begin(at, facts, s, purse):  # type: ignore[no-untyped-def]
    """Start a run: no data, nothing spent, both agents alike."""
    for i in range(PURSE_SIZE):
        purse[i] = 0.0
    reset(at, facts, s)
    for i in range(at[L.OLD_RADIUS], at[L.SIZE]):
        s[i] = 0.0
    take_over(at, facts, s)


@inner_function
def propose(at, facts, rule, s, purse, step, context, cell, opened):  # type: ignore[no-untyped-def]
    """What the revealer sees and how probable it makes a reveal (SPEC section 3, steps 1 to 3); charges the purse.

    `step` counts from 1. If the patient has opened the app unasked, that is a reveal free of charge: the rule is
    not consulted and the price stands.
    """
    stale = find_stale(at, facts, s, cell)
    score_sensed(at, facts, s, context)
    u = best(at, s)[0]
    top = largest_sensed(at, facts, s) if rule[L.SCALING] == ADAPTIVE else 0.0
    score_blind(at, facts, s, cell)
    v, fresh = best(at, s)
    scale = max(top - v, LEAST_SCALE) if rule[L.SCALING] == ADAPTIVE else rule[L.SCALE]
    gap = (u - v) / scale if abs(u - v) > TIE else 0.0
    disagreement = blind_distance(at, facts, s, cell, fresh, stale) if fresh != stale else 0.0
    price = purse[L.PRICE]
    probability = 0.0
    tolerance = 0.0
    if not opened:
        kind = int(rule[L.RULE])
        probability, tolerance = reveal_probability(
            kind, step, gap, disagreement, price, purse[L.SPENT], purse[L.NUDGES],
            rule[L.BUDGET], rule[L.HARD] > 0.0, rule[L.RATE], rule[L.TOLERANCE], int(rule[L.EVERY]),
        )  # fmt: skip
        purse[L.SPENT] += probability
        if probability > 0.0 and kind in (PRIMAL_DUAL, LEARNING_PRIMAL_DUAL):
            purse[L.PRICE] = next_price(price, probability, rule[L.BUDGET], rule[L.GROWTH])
    return Proposal(gap, price, probability, tolerance, disagreement, fresh, stale)


@inner_function
def toss(purse, probability, coin):  # type: ignore[no-untyped-def]
    """Whether the coin says to nudge; a nudge counts whether it will be answered or not."""
    if coin < probability:
        purse[L.NUDGES] += 1.0
        return True
    return False


@step_function
def count_context(at, facts, s, context, cell, times):  # type: ignore[no-untyped-def]
    """The revealer counts a context it has seen, for the running means of blind and sensed features."""
    if at[L.COUNTED] == 0:
        return
    block = at[L.ACTIONS] * at[L.D]
    s[at[L.CELL_COUNT] + cell] += times
    for j in range(block):
        x = s[at[L.X] + j] if at[L.CONTEXTS] == 0 else facts[at[L.ROWS] + context * block + j]
        s[at[L.CELL_SUM] + cell * block + j] += times * x
    if at[L.CONTEXTS] > 0:
        s[at[L.COUNTS] + context] += times
    if at[L.SENSES] > 0:
        sense = at[L.CELLS] + int(facts[at[L.SENSE_OF] + context])
        s[at[L.CELL_COUNT] + sense] += times
        for j in range(block):
            s[at[L.CELL_SUM] + sense * block + j] += times * facts[at[L.ROWS] + context * block + j]


@step_function
def uncover_pending(at, facts, s):  # type: ignore[no-untyped-def]
    """A reveal uncovers every pending step: count their contexts and learn from their rewards."""
    for k in range(at[L.CONTEXTS]):
        if s[at[L.PENDING_SEEN] + k] > 0.0:
            count_context(at, facts, s, k, int(facts[at[L.CELL_OF] + k]), s[at[L.PENDING_SEEN] + k])
            s[at[L.PENDING_SEEN] + k] = 0.0
        for a in range(at[L.ACTIONS]):
            i = k * at[L.ACTIONS] + a
            if s[at[L.PENDING_COUNT] + i] > 0.0:
                count, total = s[at[L.PENDING_COUNT] + i], s[at[L.PENDING_TOTAL] + i]
                observe(at, facts, s, facts, at[L.ROWS] + i * at[L.D], count, total)
                s[at[L.PENDING_COUNT] + i] = 0.0
                s[at[L.PENDING_TOTAL] + i] = 0.0
    set_radius(at, facts, s)


@inner_function
def settle(at, facts, rule, s, context, revealed, stale, chance):  # type: ignore[no-untyped-def]
    """The recommender's action (SPEC section 3, step 4): by the full context on a reveal, else the stale one.

    `chance`, a uniform in [0, 1), is used by the reference policy that treats at random.
    """
    if revealed:
        if at[L.SENSES] > 0:
            uncover_pending(at, facts, s)
        take_over(at, facts, s)
    treatment = int(rule[L.TREATMENT])
    if treatment == RANDOM:
        return min(int(chance * at[L.ACTIONS]), at[L.ACTIONS] - 1)
    if treatment >= 0:
        return treatment
    if not revealed:
        return stale
    if at[L.CONTEXTS] == 0:
        score_moment(at, s, at[L.X], at[L.THETA], at[L.COV], s[at[L.RADIUS]])
    else:
        score_block(at, facts, s, context)
    return best(at, s)[1]


@inner_function
def learn(at, facts, s, context, cell, action, revealed, rewarded, reward):  # type: ignore[no-untyped-def]
    """The revealer learns from the step (SPEC section 3, step 5); without a reward it only counts the context.

    With reported variables, a step that was not revealed stays pending until the next reveal uncovers it.
    """
    if at[L.SENSES] > 0 and not revealed:
        s[at[L.PENDING_SEEN] + context] += 1.0
        if rewarded:
            s[at[L.PENDING_COUNT] + context * at[L.ACTIONS] + action] += 1.0
            s[at[L.PENDING_TOTAL] + context * at[L.ACTIONS] + action] += reward
        return
    count_context(at, facts, s, context, cell, 1.0)
    if rewarded:
        if at[L.CONTEXTS] == 0:
            observe(at, facts, s, s, at[L.X] + action * at[L.D], 1.0, reward)
        else:
            observe(at, facts, s, facts, at[L.ROWS] + (context * at[L.ACTIONS] + action) * at[L.D], 1.0, reward)
        set_radius(at, facts, s)
