"""When people answer: a model that a cohort's answers teach, for PACE (docs/pace.md, When people answer).

Hypotheses h say how answering depends on nudges and absences: after c own nudges in the last ten decisions an answer is
gamma^c times as likely, and a share alpha of the time, in spells, a participant is away. Under h the probability that
participant i answers now, in the public stratum w, is

    p_h = f_i r_w A_h gamma^c,

r_w the cohort's rate, f_i what this person adds to it, A_h the probability that the participant is not away. Each
nudge's outcome moves the weight of every hypothesis by its likelihood. Counts and weights are those of all who share
the budget. Away-ness fades: A_h tends to 1 - alpha by a factor of 1 - 1 / (spell (1 - alpha)) a step.
"""

import math

from opportune.engine.compiled import inner_function, step_function

# The hypotheses: the factor of a recent nudge, the share of time away, how long an absence lasts; and their prior.
GAMMA = (1.0, 0.85, 0.7, 1.0, 1.0, 1.0, 0.85)
ALPHA = (0.0, 0.0, 0.0, 0.25, 0.25, 0.5, 0.25)
SPELL = (1.0, 1.0, 1.0, 8.0, 25.0, 40.0, 15.0)
PRIOR = (0.5, 1 / 12, 1 / 12, 1 / 12, 1 / 12, 1 / 12, 1 / 12)
HYPOTHESES = len(PRIOR)
LATELY = 10  # decisions in which nudges count as recent
SURE = 0.98  # no rate is more
EQUAL = 0.25  # so far from the usual, by its own size, an answer counts as no more or less likely than usual
LEAST_PERSON, PERSON = 0.5, 6.0  # of what a person adds; as many answers and nudges pull that to 1
A, B = 1.5, 0.5  # of the prior of rates
COMMON, SPLIT = 8.0, 2.0  # nudges that pull a stratum's rate to the common one; where strata are seen to differ


@inner_function
def rate_of(p, own, h, stratum):  # type: ignore[no-untyped-def]
    """r_w under a hypothesis."""
    if own.shared.asked_ever[0] == 0.0:
        return A / (A + B)
    return own.shared.rate[h * p.sizes.strata + stratum]


@inner_function
def recent_nudges(own, step):  # type: ignore[no-untyped-def]
    """C: how many nudges this participant got in the last ten decisions."""
    count = 0.0
    for i in range(LATELY):
        count += own.state.asked_at[i] > 0.0 and own.state.asked_at[i] >= step - LATELY
    return count


@inner_function
def present(own, h, step):  # type: ignore[no-untyped-def]
    """A_h: how probable it is that the participant is not away."""
    fading = 1.0 - 1.0 / (SPELL[h] * (1.0 - ALPHA[h])) if ALPHA[h] > 0.0 else 0.0
    since = step - own.state.presence_step[0]
    return 1.0 - ALPHA[h] + own.state.presence[h] * fading**since


@inner_function
def answer_odds(p, own, h, stratum, presence, count):  # type: ignore[no-untyped-def]
    """p_h."""
    usual = PERSON
    for w in range(p.sizes.strata):
        usual += own.state.person_asked[h * p.sizes.strata + w] * rate_of(p, own, h, w)
    person = max(LEAST_PERSON, (own.state.person_answers[0] + PERSON) / usual)
    return min(SURE, person * rate_of(p, own, h, stratum) * presence * GAMMA[h] ** count)


@step_function
def write_weights(own):  # type: ignore[no-untyped-def]
    """The weight of each hypothesis, to own.scratch.weight."""
    weight, evidence = own.scratch.weight, own.shared.evidence
    most = evidence[0]
    for h in range(1, HYPOTHESES):
        most = max(most, evidence[h])
    total = 0.0
    for h in range(HYPOTHESES):
        weight[h] = PRIOR[h] * math.exp(evidence[h] - most)
        total += weight[h]
    for h in range(HYPOTHESES):
        weight[h] /= total


@step_function
def expect_answers(p, own, moment, share):  # type: ignore[no-untyped-def]
    """How probable an answer is now; and, in own.scratch.usual, how probable it usually is in each stratum.

    Now is as usual if it is near enough.
    """
    write_weights(own)
    n, weight, usual = p.sizes, own.scratch.weight, own.scratch.usual
    count = recent_nudges(own, moment.step)
    for w in range(n.strata):
        usual[w] = 0.0
        for h in range(HYPOTHESES):
            usual[w] += weight[h] * rate_of(p, own, h, w) * (1.0 - ALPHA[h]) * GAMMA[h] ** (LATELY * share)
    now = 0.0
    for h in range(HYPOTHESES):
        now += weight[h] * answer_odds(p, own, h, moment.stratum, present(own, h, moment.step), count)
    expected = usual[moment.stratum]
    return expected if abs(now - expected) <= EQUAL * expected else now


@step_function
def learn_answer(p, own, moment, answered):  # type: ignore[no-untyped-def]
    """What a nudge's outcome teaches; gives U, how much less likely an answer is now than the usual."""
    n, state, shared, w = p.sizes, own.state, own.shared, moment.stratum
    count = recent_nudges(own, moment.step)
    for h in range(HYPOTHESES):
        presence = present(own, h, moment.step)
        odds, rate = answer_odds(p, own, h, w, presence, count), rate_of(p, own, h, w)
        tired = GAMMA[h] ** count
        if answered:
            shared.evidence[h] += math.log(max(odds, 1e-300))
            presence = 1.0
        else:
            shared.evidence[h] += math.log1p(-odds)
            presence = min(1.0, presence * (1.0 - rate * tired) / (1.0 - odds))
        own.scratch.presence[h] = presence
        state.presence[h] = presence - (1.0 - ALPHA[h])
        shared.asked[h * n.strata + w] += presence * tired
        state.person_asked[h * n.strata + w] += presence * tired
    state.presence_step[0] = moment.step
    if answered:
        shared.answers[w] += 1.0
        state.person_answers[0] += 1.0
    shared.asked_ever[0] += 1.0
    state.asked_at[int(state.asked_count[0]) % LATELY] = moment.step
    state.asked_count[0] += 1.0
    for h in range(HYPOTHESES):
        write_rates(n, shared, h)
    write_weights(own)
    now, usual = 0.0, 0.0
    for h in range(HYPOTHESES):
        rate = own.scratch.weight[h] * rate_of(p, own, h, w)
        now += rate * own.scratch.presence[h] * GAMMA[h] ** (count + 1.0)
        usual += rate
    return 1.0 - now / usual


@inner_function
def seen_present(own, step):  # type: ignore[no-untyped-def]
    """The participant opened the app, and so is not away."""
    for h in range(HYPOTHESES):
        own.state.presence[h] = ALPHA[h]
    own.state.presence_step[0] = step


@inner_function
def log_beta(a, b):  # type: ignore[no-untyped-def]
    """Ln B(a, b)."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@step_function
def write_rates(n, shared, h):  # type: ignore[no-untyped-def]
    """r_w of every stratum under a hypothesis: near the common rate, unless strata are seen to differ."""
    first = h * n.strata
    asked, answers, apart = 0.0, 0.0, 0.0
    for w in range(n.strata):
        asked += shared.asked[first + w]
        answers += shared.answers[w]
        apart += log_beta(A + shared.answers[w], B + max(0.0, shared.asked[first + w] - shared.answers[w]))
        apart -= log_beta(A, B)
    together = log_beta(A + answers, B + max(0.0, asked - answers)) - log_beta(A, B)
    pull = SPLIT if apart > together + 1e-9 else COMMON  # equal where one stratum was asked
    common = min(SURE, (A + answers) / (A + B + asked))
    for w in range(n.strata):
        shared.rate[first + w] = min(SURE, (shared.answers[w] + pull * common) / (shared.asked[first + w] + pull))
