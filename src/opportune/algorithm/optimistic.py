"""Optimism about the context distribution (the paper's Algorithm F.1), one action at a time.

With features Phi_a (K x d), `mean` m = Phi_a theta (K) and `gram` G = Phi_a V^-1 Phi_a' (K x K), the
optimistic blind value of an action is, after maximising over theta in its ellipsoid in closed form,

    max_p f(p),   f(p) = <p, m> + radius sqrt(p' G p),   over lower <= p <= upper, sum p = 1.

f is convex, so a vertex of the box cut with the simplex attains the maximum, and a vertex has at most one
coordinate off its bounds. `optimistic_exact` searches the vertices; `optimistic_alternating` climbs from
several of them.
Callers ensure that sum lower <= 1 <= sum upper; `bernstein_box` always does, since it contains the frequencies.
`work` is scratch, float64[work_rows(K), K]; its content before and after a call is irrelevant.
"""

import math

from opportune.algorithm.model import TIE
from opportune.engine.compiled import inner_dual_function
from opportune.engine.declared import SEARCH_ROWS

EXACT_LIMIT = 12  # the most contexts for which `optimistic` searches every vertex

# Rows of `work` in the exact search; the rest contains the permuted gram matrix and G base, one row per depth.
_ORDER, _MEAN, _WIDTH, _SCORE, _TAKEN, _CHOSEN = 0, 1, 2, 3, 4, 5
_CURSOR, _REST, _LINEAR, _SQUARE, _OUT_WIDTH, _OUT_SCORE = 6, 7, 8, 9, 10, 11
_ROUNDING = 1e-13  # sums of probabilities that differ by less are equal


@inner_dual_function
def work_rows(contexts):  # type: ignore[no-untyped-def]
    """The number of rows of the scratch array `work` for K contexts."""
    return 2 * contexts + SEARCH_ROWS


@inner_dual_function
def bernstein_width(frequency, sample, log_term):  # type: ignore[no-untyped-def]
    """Lemma F.2: zeta = sqrt(2 p (1 - p) l / max(n, 1)) + 7 l / (3 max(n - 1, 1)), l = ln(2 K T / delta)."""
    spread = math.sqrt(2.0 * max(frequency * (1.0 - frequency), 0.0) * log_term / max(sample, 1.0))
    return spread + 7.0 * log_term / (3.0 * max(sample - 1.0, 1.0))


@inner_dual_function
def bernstein_box(counts, total, delta, horizon, lower, upper):  # type: ignore[no-untyped-def]
    """Write the empirical-Bernstein box around the frequencies: max(0, p_k - zeta_k), min(1, p_k + zeta_k).

    The sample of zeta_k is all `total` contexts seen: p_k is the mean of that many indicators, as in Lemma F.1.
    Lemma F.2 prints m(k, t), the number of times context k itself was seen; that box is also valid but wider, and at
    the paper's horizon of 300 it excludes next to nothing.
    Before any observation the bounds are 0 and 1.
    """
    contexts = counts.shape[0]
    log_term = math.log(2.0 * contexts * horizon / delta)
    for k in range(contexts):
        lower[k] = 0.0
        upper[k] = 1.0
        if total > 0.0:
            frequency = counts[k] / total
            zeta = bernstein_width(frequency, total, log_term)
            lower[k] = max(0.0, frequency - zeta)
            upper[k] = min(1.0, frequency + zeta)


@inner_dual_function
def optimistic_value(mean, gram, radius, p):  # type: ignore[no-untyped-def]
    """f(p) = <p, m> + radius sqrt(p' G p)."""
    linear = 0.0
    square = 0.0
    for k in range(mean.shape[0]):
        if p[k] != 0.0:
            linear += p[k] * mean[k]
            inner = 0.0
            for j in range(mean.shape[0]):
                inner += gram[k, j] * p[j]
            square += p[k] * inner
    return linear + radius * math.sqrt(max(square, 0.0))


@inner_dual_function
def _descending(score, count, order):  # type: ignore[no-untyped-def]
    """Sort the first `count` indices in `order` by falling score; scores within `TIE` keep their order."""
    for i in range(1, count):
        index = order[i]
        value = score[int(index)]
        j = i - 1
        while j >= 0 and score[int(order[j])] < value - TIE:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = index


@inner_dual_function
def greedy_fill(score, lower, upper, p_out, order):  # type: ignore[no-untyped-def]
    """Maximise <p, score> over the box cut with the simplex: fill the largest scores first, ties by index.

    `order` is scratch of K entries. Returns the maximum.
    """
    contexts = score.shape[0]
    rest = 1.0
    for k in range(contexts):
        order[k] = k
        p_out[k] = lower[k]
        rest -= lower[k]
    _descending(score, contexts, order)
    for i in range(contexts):
        k = int(order[i])
        if rest <= 0.0:
            break
        part = upper[k] - lower[k]
        if part > rest:
            p_out[k] = lower[k] + rest
            rest = 0.0
        else:
            p_out[k] = upper[k]
            rest -= part
    value = 0.0
    for k in range(contexts):
        value += p_out[k] * score[k]
    return value


@inner_dual_function
def optimistic_exact(mean, gram, radius, lower, upper, p_out, work):  # type: ignore[no-untyped-def]
    """The maximum of f over the box cut with the simplex; writes the maximiser to `p_out`.

    With w = upper - lower and s = 1 - sum lower, a vertex is a set U at its upper bounds, the rest at the
    lower ones except for one j outside U that takes the remainder: sum_U w < s <= sum_U w + w_j. The search visits
    the sets U depth first, contexts in decreasing order of their own ucb m_k + radius sqrt(G_kk).
    With `base` the point at U's and the others' bounds, G base and base' G base grow by one row a step:
    trying a j costs a square root. A branch is cut off if the remainder cannot be placed, or cannot win:

        f(base + x) <= f(base) + sum_k x_k (m_k + radius sqrt(G_kk))   (triangle inequality).

    Larger sets come first, so the first vertex is the greedy fill; a later one must beat it by `TIE`.
    """
    contexts = mean.shape[0]
    order, m, w, score = work[_ORDER], work[_MEAN], work[_WIDTH], work[_SCORE]
    taken, chosen, cursor, rest = work[_TAKEN], work[_CHOSEN], work[_CURSOR], work[_REST]
    linear, square, out_width, out_score = work[_LINEAR], work[_SQUARE], work[_OUT_WIDTH], work[_OUT_SCORE]
    G, inner = work[SEARCH_ROWS : SEARCH_ROWS + contexts], work[SEARCH_ROWS + contexts :]

    slack = 1.0
    room = 0.0
    items = 0
    for k in range(contexts):
        slack -= lower[k]
        width = upper[k] - lower[k]
        p_out[k] = lower[k]
        room += width
        score[k] = mean[k] + radius * math.sqrt(max(gram[k, k], 0.0))
        if width > 0.0:
            order[items] = k
            items += 1
    if slack <= _ROUNDING or room <= slack + _ROUNDING:  # the box meets the simplex in one point
        if slack > _ROUNDING:
            for k in range(contexts):
                p_out[k] = upper[k]
        return optimistic_value(mean, gram, radius, p_out)
    _descending(score, items, order)

    sum_linear = 0.0
    sum_square = 0.0
    for i in range(items):
        inner[0, i] = 0.0
    for k in range(contexts):
        if lower[k] != 0.0:
            sum_linear += lower[k] * mean[k]
            for i in range(items):
                inner[0, i] += gram[int(order[i]), k] * lower[k]
            for j in range(contexts):
                sum_square += lower[k] * gram[k, j] * lower[j]
    linear[0] = sum_linear
    square[0] = sum_square
    for i in range(items):
        k = int(order[i])
        m[i] = mean[k]
        w[i] = upper[k] - lower[k]
        taken[i] = 0.0
        for j in range(items):
            G[i, j] = gram[k, int(order[j])]
    for i in range(items):
        score[i] = m[i] + radius * math.sqrt(max(G[i, i], 0.0))

    best = -math.inf
    depth = 0
    rest[0] = slack
    cursor[0] = 0.0
    out_width[0] = 0.0  # of skipped items: the largest width, and the best score
    out_score[0] = -math.inf
    while depth >= 0:
        left = rest[depth]
        i = int(cursor[depth])
        if i == items:  # larger sets are finished; now this set's own vertices, then backtrack
            for j in range(items):
                if taken[j] == 0.0 and w[j] >= left - _ROUNDING:
                    part = min(left, w[j])
                    norm2 = square[depth] + part * (2.0 * inner[depth, j] + part * G[j, j])
                    value = linear[depth] + part * m[j] + radius * math.sqrt(max(norm2, 0.0))
                    if value > best + TIE:
                        best = value
                        for k in range(contexts):
                            p_out[k] = lower[k]
                        for e in range(items):
                            if taken[e] != 0.0:
                                p_out[int(order[e])] = upper[int(order[e])]
                        p_out[int(order[j])] += part
            depth -= 1
            if depth >= 0:
                taken[int(chosen[depth])] = 0.0
            continue
        cursor[depth] = i + 1.0
        widest = out_width[depth]
        top = out_score[depth]
        out_width[depth] = max(widest, w[i])
        out_score[depth] = max(top, score[i])
        if w[i] >= left - _ROUNDING:
            continue
        new_linear = linear[depth] + w[i] * m[i]
        new_square = square[depth] + w[i] * (2.0 * inner[depth, i] + w[i] * G[i, i])
        bound = new_linear + radius * math.sqrt(max(new_square, 0.0))
        after = left - w[i]
        if widest > 0.0:  # at most one skipped item may still get a part
            part = min(after, widest)
            bound += part * top
            after -= part
        for j in range(i + 1, items):
            if after <= 0.0:
                break
            part = min(after, w[j])
            bound += part * score[j]
            after -= part
        if after > _ROUNDING:
            cursor[depth] = items  # too little room from here on
        elif bound > best + TIE:
            chosen[depth] = i
            taken[i] = 1.0
            rest[depth + 1] = left - w[i]
            linear[depth + 1] = new_linear
            square[depth + 1] = new_square
            for e in range(items):
                inner[depth + 1, e] = inner[depth, e] + w[i] * G[i, e]
            cursor[depth + 1] = i + 1.0
            out_width[depth + 1] = widest
            out_score[depth + 1] = top
            depth += 1
    return optimistic_value(mean, gram, radius, p_out)


@inner_dual_function
def optimistic_gradient(mean, gram, radius, p, slope):  # type: ignore[no-untyped-def]
    """f(p), and written to `slope` its gradient m + radius G p / sqrt(p' G p).

    The gradient is also Phi_a theta for the theta in the ellipsoid that is best for p. f is convex, so
    filling greedily by the gradient at p gives a point at least as good as p: one round of the alternation.
    """
    contexts = mean.shape[0]
    linear = 0.0
    square = 0.0
    for k in range(contexts):
        inner = 0.0
        for j in range(contexts):
            inner += gram[k, j] * p[j]
        slope[k] = inner
        linear += p[k] * mean[k]
        square += p[k] * inner
    norm = math.sqrt(max(square, 0.0))
    pull = radius / norm if norm > 0.0 else 0.0
    for k in range(contexts):
        slope[k] = mean[k] + pull * slope[k]
    return linear + radius * norm


@inner_dual_function
def optimistic_alternating(mean, gram, radius, lower, upper, p_out, work):  # type: ignore[no-untyped-def]
    """The best local maximum of f that the alternation reaches from 2 K + 2 vertices; writes it to `p_out`.

    The starts are greedy fills of the means m, of the upper confidence bounds m_k + radius sqrt(G_kk), and, for each k,
    of the values under the theta that favours context k most, m + radius G e_k / sqrt(G_kk), and least. The result is
    never above the exact maximum, and at least as good as each start.
    """
    contexts = mean.shape[0]
    slope, order, here, there = work[0], work[1], work[2], work[3]
    best = -math.inf
    for start in range(-2, 2 * contexts):
        direction = start % contexts
        pull = radius if start < contexts else -radius
        norm = math.sqrt(max(gram[direction, direction], 0.0))
        for k in range(contexts):
            slope[k] = mean[k]
            if start == -1:
                slope[k] += radius * math.sqrt(max(gram[k, k], 0.0))
            elif start >= 0 and norm > 0.0:
                slope[k] += pull * gram[k, direction] / norm
        greedy_fill(slope, lower, upper, here, order)
        value = optimistic_gradient(mean, gram, radius, here, slope)
        climbing = True
        while climbing:  # each counted round reaches a better vertex, and there are finitely many
            greedy_fill(slope, lower, upper, there, order)
            new = optimistic_gradient(mean, gram, radius, there, slope)
            climbing = new > value + TIE
            if climbing:
                value = new
                for k in range(contexts):
                    here[k] = there[k]
        if value > best + TIE:
            best = value
            for k in range(contexts):
                p_out[k] = here[k]
    return best


@inner_dual_function
def optimistic(mean, gram, radius, lower, upper, p_out, work):  # type: ignore[no-untyped-def]
    """The optimistic value of one action: exact up to `EXACT_LIMIT` contexts, by alternation beyond."""
    if mean.shape[0] <= EXACT_LIMIT:
        return optimistic_exact(mean, gram, radius, lower, upper, p_out, work)
    return optimistic_alternating(mean, gram, radius, lower, upper, p_out, work)
