"""What PACE ranks: the gain of a reveal in each moment to expect, and what stale advice costs now (revealers.pace).

All by m(x) = <x, theta>, the revealer's present means. Gains and probabilities of moments go to `own.shared`, a row for
each participant who shares the budget.
"""

import math

from opportune.algorithm.masks import blind_mask, forbid, sense_mask
from opportune.algorithm.model import TIE, mean_of
from opportune.algorithm.scores import cover
from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import KNOWN


@inner_function
def count_ranked(p, own):  # type: ignore[no-untyped-def]
    """How many moments the present one is ranked among: sensed parts; or itself and the recent ones."""
    n = p.sizes
    if n.contexts > 0:
        return n.senses if n.senses > 0 else n.contexts
    return int(own.settings.recent[0]) + 1


@inner_function
def block_mean(p, block, action):  # type: ignore[no-untyped-def]
    """m(x) of an action in a block of the problem's rows."""
    n = p.sizes
    row = block * n.actions + action
    if n.table > 0:
        return p.model.mean[row]
    return mean_of(n, p.model.theta, n.support, p.constants.rows, p.constants.lists, row * n.d)


@inner_function
def running_mean(p, part, action):  # type: ignore[no-untyped-def]
    """m(x) of an action in a stratum or a sensed part whose features are running means; contexts finite."""
    n, total, start = p.sizes, p.counts.total, p.constants.start
    place = (part * n.actions + action) * n.d
    if p.counts.count[part] > 0.0:
        return mean_of(n, p.model.theta, 0, total, total, place) / p.counts.count[part]
    return mean_of(n, p.model.theta, 0, start, start, place)


@inner_function
def write_table_gains(p, own):  # type: ignore[no-untyped-def]
    """Bases, gains and probabilities where every mean is kept in the table: p known, contexts finite."""
    n, mean, actions = p.sizes, p.model.mean, p.sizes.actions
    base, greedy, gain, odds = own.scratch.base, own.scratch.greedy, own.shared.gain, own.shared.odds
    ranked = count_ranked(p, own)
    blind = n.contexts * actions
    sensed = blind + n.strata * actions if n.senses > 0 else 0
    row = int(p.rule.member[0]) * ranked
    realised = own.settings.realised[0] > 0.0
    for z in range(n.strata):
        first = blind + z * actions
        top = mean[first]
        for a in range(1, actions):
            top = max(top, mean[first + a])
        for a in range(actions):
            if mean[first + a] >= top - TIE:
                base[z] = top
                greedy[z] = a
                break
    for q in range(ranked):
        first = sensed + q * actions
        top = mean[first]
        for a in range(1, actions):
            top = max(top, mean[first + a])
        z = int(p.constants.stratum_of_sense[q])
        gain[row + q] = top - (mean[first + int(greedy[z])] if realised else base[z])
        odds[row + q] = p.constants.sense_probability[q]


@step_function
def write_bases(p, own):  # type: ignore[no-untyped-def]
    """The best mean of the blind features in each stratum, and the action b(z) that has it; contexts finite."""
    n, ucb, top_of, greedy = p.sizes, p.scratch.ucb, own.scratch.base, own.scratch.greedy
    known = n.probabilities == KNOWN
    for z in range(n.strata):
        top = -math.inf
        for a in range(n.actions):
            ucb[a] = block_mean(p, n.contexts + z, a) if known else running_mean(p, z, a)
        if n.masked > 0:
            masks, place = blind_mask(p, z)
            forbid(n, ucb, masks, place)
        for a in range(n.actions):
            top = max(top, ucb[a])
        for a in range(n.actions):
            if ucb[a] >= top - TIE:
                top_of[z] = top
                greedy[z] = a
                break


@step_function
def write_gains(p, own):  # type: ignore[no-untyped-def]
    """The gain of each sensed part and its probability, in this participant's row; contexts finite."""
    n, tally, gain, odds = p.sizes, own.state.tally, own.shared.gain, own.shared.odds
    ranked = count_ranked(p, own)
    row = int(p.rule.member[0]) * ranked
    known = n.probabilities == KNOWN
    realised = own.settings.realised[0] > 0.0
    total = 0.0
    if not known:
        for q in range(ranked):
            total += tally[q]
    for q in range(ranked):
        averaged = n.senses > 0 and not known
        block = n.contexts + n.strata + q if n.senses > 0 else q
        z = int(p.constants.stratum_of_sense[q])
        base = own.scratch.base[z]
        top = -math.inf
        masks, place = sense_mask(p, q)
        for a in range(n.actions):
            value = running_mean(p, n.strata + q, a) if averaged else block_mean(p, block, a)
            if n.masked == 0 or masks[place + a] == 0.0:
                top = max(top, value)
            if realised and a == int(own.scratch.greedy[z]):
                base = value
        gain[row + q] = top - base
        if known:
            odds[row + q] = p.constants.sense_probability[q]
        else:
            odds[row + q] = (tally[q] + 1.0) / (total + ranked)


@inner_function
def gain_of_vectors(p, own, x, first, stratum, masks, place):  # type: ignore[no-untyped-def]
    """The gain of a moment with the features from x[first] on, contexts not finite; its blind ones: scratch.blind.

    From masks[place] on stands what the public part forbids, then what the sensed part does.
    """
    n, scratch, theta = p.sizes, p.scratch, p.model.theta
    learned = n.counted > 0 and p.counts.count[stratum] > 0.0
    base = -math.inf
    top = -math.inf
    for a in range(n.actions):
        fit = 0.0  # <x, theta>, summed beside <blind, theta>: both wait for the same numbers
        blind_fit = 0.0
        for i in range(n.d):
            j = a * n.d + i
            value = x[first + j]
            blind = value
            if p.constants.hidden[i] != 0.0 and learned:
                blind = p.counts.total[stratum * n.block + j] / p.counts.count[stratum]
            elif p.constants.hidden[i] != 0.0:
                blind = p.constants.start[stratum * n.block + j]
            scratch.blind[j] = blind
            blind_fit += blind * theta[i]
            fit += value * theta[i]
        scratch.ucb[a] = blind_fit
        if n.masked == 0 or masks[place + a] == 0.0:
            base = max(base, blind_fit)
        if n.masked == 0 or masks[place + n.actions + a] == 0.0:
            top = max(top, fit)
    if own.settings.realised[0] > 0.0:
        for a in range(n.actions):
            if scratch.ucb[a] >= base - TIE and (n.masked == 0 or masks[place + a] == 0.0):
                return top - mean_of(n, theta, 0, x, x, first + a * n.d)
    return top - base


@step_function
def gain_of_moment(p, own, x, first, stratum, masks, place):  # type: ignore[no-untyped-def]
    """The gain of a moment whose full features begin at x[first], as the revealer sees them."""
    n, scratch = p.sizes, p.scratch
    if n.reported == 0:
        return gain_of_vectors(p, own, x, first, stratum, masks, place)
    for j in range(n.block):
        scratch.y[j] = x[first + j]
    cover(n, p.constants, p.counts, scratch.y, stratum)
    return gain_of_vectors(p, own, scratch.y, 0, stratum, masks, place)


@step_function
def write_recent_gains(p, own, moment):  # type: ignore[no-untyped-def]
    """The gains of the moment itself (first) and of the recent ones, by present knowledge; contexts not finite."""
    n, state, gain, odds = p.sizes, own.state, own.shared.gain, own.shared.odds
    ranked = count_ranked(p, own)
    row = int(p.rule.member[0]) * ranked
    kept = min(int(state.recent_count[0]), ranked - 1)
    for i in range(ranked):
        odds[row + i] = 1.0 / (kept + 1) if i <= kept else 0.0
    for i in range(kept):
        stratum = int(state.recent_stratum[i])
        masks = i * 2 * n.actions
        gain[row + 1 + i] = gain_of_moment(
            p, own, state.recent, i * n.block, stratum, state.recent_forbidden, masks
        )  # fmt: skip
    gain[row] = gain_of_moment(p, own, p.scratch.x, 0, moment.stratum, p.scratch.forbidden, 0)


@step_function
def write_strata(p, own, moment):  # type: ignore[no-untyped-def]
    """The public parts of the moments in this participant's row, by which they are weighed."""
    n = p.sizes
    ranked = count_ranked(p, own)
    row = int(p.rule.member[0]) * ranked
    for i in range(ranked):
        z = moment.stratum
        if n.contexts > 0:
            z = int(p.constants.stratum_of_sense[i])
        elif i > 0:
            z = int(own.state.recent_stratum[i - 1])
        own.shared.stratum[row + i] = z


@inner_function
def stale_loss(p, own, moment, stale):  # type: ignore[no-untyped-def]
    """(m(bar(z, b(z))) - m(bar(z, A_stale)), b(z)) of the moment."""
    n, scratch = p.sizes, p.scratch
    if n.contexts > 0:
        z = moment.stratum
        known = n.probabilities == KNOWN
        value = block_mean(p, n.contexts + z, stale) if known else running_mean(p, z, stale)
        return own.scratch.base[z] - value, int(own.scratch.greedy[z])
    top = -math.inf  # the blind features of the moment itself were written last
    for a in range(n.actions):
        if n.masked == 0 or scratch.forbidden[a] == 0.0:
            top = max(top, scratch.ucb[a])
    return top - scratch.ucb[stale], -1


@step_function
def rank(p, own, worth):  # type: ignore[no-untyped-def]
    """(P(G > g), P(G = g), max G): over all participants who share the budget, each as of its latest step."""
    ranked = count_ranked(p, own)
    itself = -1 if p.sizes.contexts > 0 else int(p.rule.member[0]) * ranked
    return rank_among(own.shared.gain, own.shared.odds, int(p.rule.sharers[0]), ranked, worth, itself)


@step_function
def rank_weighed(p, own, worth):  # type: ignore[no-untyped-def]
    """`rank`, with each gain weighed by how probable an answer now usually is in its public part."""
    ranked, shared, usual, weighed = count_ranked(p, own), own.shared, own.scratch.usual, own.scratch.weighed
    itself = -1 if p.sizes.contexts > 0 else int(p.rule.member[0]) * ranked
    for i in range(int(p.rule.sharers[0]) * ranked):
        weighed[i] = shared.gain[i] * usual[int(shared.stratum[i])]
    return rank_among(weighed, shared.odds, int(p.rule.sharers[0]), ranked, worth, itself)


@inner_function
def rank_among(gains, odds, members, ranked, worth, itself):  # type: ignore[no-untyped-def]
    """(P(G > g), P(G = g), max G) among `ranked` moments of each member; what stands at `itself` counts as equal."""
    above = 0.0
    tied = 0.0
    most = -math.inf
    begun = 0.0
    for row in range(0, members * ranked, ranked):
        total = 0.0
        for i in range(row, row + ranked):
            if odds[i] > 0.0:
                total += odds[i]
                most = max(most, gains[i])
                if i == itself or abs(gains[i] - worth) <= TIE:
                    tied += odds[i]
                elif gains[i] > worth:
                    above += odds[i]
        begun += total > 0.0  # those who had a step already
    return above / begun, tied / begun, most


@inner_function
def write_all_gains(p, own, moment):  # type: ignore[no-untyped-def]
    """The gains of all moments to expect; that of the moment itself is returned."""
    n = p.sizes
    row = int(p.rule.member[0]) * count_ranked(p, own)
    if n.contexts == 0:
        write_recent_gains(p, own, moment)
        return own.shared.gain[row]
    if n.table > 0 and n.probabilities == KNOWN and n.masked == 0:
        write_table_gains(p, own)
    else:
        write_bases(p, own)
        write_gains(p, own)
    return own.shared.gain[row + moment.sense]
