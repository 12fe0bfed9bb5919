"""The claims of the brushing experiment, and their verdicts."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import xarray as xr

from opportune.experiments.base import Config
from opportune.experiments.claims import ROUNDING, Claim, Estimate, claim, decide, exact, measure, without_exception
from opportune.experiments.oralytics.grid import (
    BUDGETS,
    CHOICES,
    LATE,
    MODELS,
    REFERENCES,
    REVEALED,
    THREE,
    UNREVEALED,
    open_tasks,
)
from opportune.experiments.oralytics.informed import INFORMED
from opportune.experiments.oralytics.numbers import Floats, Numbers, lead, lead_by_trial, whole_course

Parts = Mapping[str, xr.Dataset]
CHEAP = 20
"""The highest cost of a message, in seconds of brushing, at which sending is cheap."""
Z95 = 1.959963984540054
"""Standard errors in half an interval, as the paper counts them."""


def all_claims(config: Config, parts: Parts, numbers: Numbers) -> list[Claim]:
    """Figure 3's claims, then those about costs, openings, shared budgets and pooled models."""
    return [
        _order_claim("PD2's mean brushing is above PD1's and naive's at the end (ROBAS 3).", parts["base"]),
        _overlap_claim(numbers["base"]),
        _order_claim("The same order comes out in the second environment, ROBAS 2.", parts["robas2"]),
        _choices_claim(parts),
        _sending_claim(parts["base"], numbers["base"]),
        _revealing_claim(parts["base"], numbers["base"]),
        _cost_claim(config, parts),
        _context_claim(config, parts),
        _opens_claim(config, parts),
        _budget_claim(config, parts["pooled"]),
        _pooled_claim(parts["pooled"]),
        *(_model_claim(users, parts[task], numbers[task]) for task, users in MODELS.items()),
    ]


def what_was_found(config: Config, parts: Parts, numbers: Numbers) -> str:
    """Which policy wins in the paper's brushing study, why, and from which cost on knowing the user pays."""
    base = numbers["base"]
    policies = (*THREE, *REFERENCES, UNREVEALED, REVEALED)
    best = max(policies, key=lambda p: float(base[p]["mean"]))
    said = ", ".join(f"{p} {base[p]['mean']:.0f}" for p in (best, *(p for p in THREE if p != best), "never send"))
    if best != "always send":
        return f"In brushing {best} comes first. Seconds per session: {said}."
    return (
        "In the paper's brushing study no policy beats sending a message every time, which takes no learning. "
        f"Seconds per session: {said}. Messages are free there and nearly always help, so there is nothing to decide: "
        f"a policy that knows each user's true effects sends in {100 * base[INFORMED]['sent']:.0f}% of sessions. The "
        "others pay for exploring, since each session without a message costs brushing: PD2 sent in "
        f"{100 * base['PD2']['sent']:.0f}%. {_worth_knowing(config, parts)}"
    )


def _worth_knowing(config: Config, parts: Parts) -> str:
    """The least cost at which a policy that knows the truth clearly beats the better of always and never sending."""
    for c in config["costs"]:
        data = parts[f"cost-{c}"]
        found = measure("", lead(data, INFORMED, _better(data)), above=0.0)
        if found.held:
            return (
                f"Among the costs tried, {c} s of brushing per message is the lowest at which knowing the user clearly "
                f"pays: a policy that knows the true effects is then {found.mean:.1f} s ahead of the better of always "
                f"and never sending (95% interval {found.low:.1f} to {found.high:.1f})."
            )
    return "Knowing the user does not clearly pay at any of the costs per message that were tried."


def _better(data: xr.Dataset) -> str:
    """The better of always and never sending."""
    values = whole_course(data)
    return max(("always send", "never send"), key=lambda p: float(values.sel(policy=p).mean()))


def ahead(label: str, data: xr.Dataset, first: str, second: str) -> Estimate:
    """The lead of `first` over `second`, which must be above 0."""
    return measure(label, lead(data, first, second), above=0.0)


def _order_claim(statement: str, data: xr.Dataset) -> Claim:
    means = ", ".join(f"{p} {float(whole_course(data).sel(policy=p).mean()):.1f}" for p in THREE)
    return claim(
        statement,
        "PD2 ahead, in seconds per session, user by user",
        [ahead(f"of {other}", data, "PD2", other) for other in THREE[1:]],
        note=f"Means over the whole course: {means}.",
    )


def paper_interval(number: Numbers) -> tuple[float, float]:
    """The 95% interval by the paper's standard error."""
    half = Z95 * number["se_paper"]
    return number["mean"] - half, number["mean"] + half


def _overlap_claim(numbers: Numbers) -> Claim:
    """Whether the paper's own intervals overlap; this estimates no difference."""
    intervals = {p: paper_interval(numbers[p]) for p in THREE}
    common = min(high for _, high in intervals.values()) - max(low for low, _ in intervals.values())
    estimates = [exact("seconds common to all three", common, above=0.0)]
    shown = ", ".join(f"{p} {low:.1f} to {high:.1f}" for p, (low, high) in intervals.items())
    return Claim(
        statement="The 95% intervals of the three policies overlap (ROBAS 3, the paper's standard error).",
        verdict=decide(estimates),
        evidence=f"{shown}: {'they share' if common > 0 else 'they miss each other by'} {abs(common):.1f} s. These "
        "intervals are for each policy alone; all meet the same draws, so differences are more certain than they "
        "suggest.",
        estimates=estimates,
    )


def _choices_claim(parts: Parts) -> Claim:
    found = [
        ahead(f"{choice.label}, of {other}", parts[task], "PD2", other)
        for task, choice in CHOICES.items()
        for other in THREE[1:]
    ]
    return claim(
        "PD2 comes first however the open points of the experiment are read.",
        "PD2 ahead, in seconds per session",
        found,
    )


def _sending_claim(data: xr.Dataset, numbers: Numbers) -> Claim:
    others = (*THREE, *(p for p in REFERENCES if p != "always send"), REVEALED)
    return claim(
        "Without a cost sending never hurts: always sending does at least as well as every policy.",
        "Always sending ahead, in seconds per session",
        [ahead(f"of {p}", data, "always send", p) for p in others],
        note=f"PD2 sent in {100 * numbers['PD2']['sent']:.0f}% of sessions.",
    )


def _revealing_claim(data: xr.Dataset, numbers: Numbers) -> Claim:
    late = ", ".join(
        f"{p} sent at each of the last {LATE} sessions in {100 * numbers[p]['late_always']:.0f}% of courses "
        f"and at none in {100 * numbers[p]['late_never']:.0f}%"
        for p in THREE
    )
    return claim(
        "Revealing pays: PD2 does better than the same recommender to whom nothing is ever revealed.",
        "PD2 ahead, in seconds per session",
        [ahead("of nothing revealed", data, "PD2", UNREVEALED)],
        note="A recommender that has seen no data is optimistic about messages and sent one in "
        f"{100 * numbers[UNREVEALED]['sent']:.0f}% of sessions; one that has seen everything explores, sent in "
        f"{100 * numbers[REVEALED]['sent']:.0f}% and reached {numbers[REVEALED]['mean']:.1f} s. In the first quarter "
        f"PD2 made {numbers['PD2']['early_reveals']:.1f} of its {numbers['PD2']['reveals']:.1f} reveals, naive "
        f"{numbers['naive']['early_reveals']:.1f} of {numbers['naive']['reveals']:.1f}; after that the recommender "
        f"acts on what it has: {late}.",
    )


def _cost_claim(config: Config, parts: Parts) -> Claim:
    found = [ahead(f"cost {c} s", parts[f"cost-{c}"], "PD2", "always send") for c in config["costs"] if c <= CHEAP]
    return claim(
        f"At every cost of up to {CHEAP} s per message, PD2 earns more, net of the cost, than always sending.",
        "PD2 ahead of always sending, in seconds per session",
        found,
    )


def _context_claim(config: Config, parts: Parts) -> Claim:
    """Against the better of always and never sending, cost by cost."""
    found, informed = [], []
    for c in config["costs"]:
        data = parts[f"cost-{c}"]
        better = _better(data)
        found.append(ahead(f"cost {c} s, of {better}", data, "PD2", better))
        informed.append(f"{c} s: {float(np.mean(lead(data, INFORMED, better))):+.1f}")
    return claim(
        "There is a cost at which PD2 beats both always and never sending.",
        "PD2 ahead of the better of the two, in seconds per session",
        found,
        some=True,
        note="A policy that knows the user's true parameters and sends where a message earns more at once than it "
        f"costs is ahead by: {', '.join(informed)}.",
    )


def _spread(data: xr.Dataset) -> Floats:
    """The lead of the best of the three over the worst, user by user."""
    values = whole_course(data)
    worst, _, best = sorted(THREE, key=lambda p: float(values.sel(policy=p).mean()))
    return lead(data, best, worst)


def _opens_claim(config: Config, parts: Parts) -> Claim:
    spreads = {rate: _spread(parts[task]) for rate, task in open_tasks(config).items()}
    return claim(
        "The more often users open the app unasked, the less the choice of revealer matters.",
        "Fall of the best policy's lead over the worst, in seconds per session",
        [measure(f"from open rate {a:g} to {b:g}", spreads[a] - spreads[b], above=0.0) for a, b in pairwise(spreads)],
        note="Leads: " + ", ".join(f"{s.mean():.1f} s at open rate {rate:g}" for rate, s in spreads.items()) + ".",
    )


def _budget_claim(config: Config, data: xr.Dataset) -> Claim:
    """The spending of every run of every policy against its own limit."""
    exceptions, shown = 0, []
    for name, kind in BUDGETS.items():
        over = ["world"] if kind["shared"] else []
        limit = config["budget"] * config["users"] if kind["shared"] else config["budget"]
        runs = data.sel(policy=[f"{p} {name}" for p in THREE])
        spent, nudges = runs["spent"].sum(over), runs["nudges"].sum(over)
        exceptions += int((spent > limit + ROUNDING).sum()) + (int((nudges > limit).sum()) if kind["hard"] else 0)
        shown.append(f"{name}: expected {float(spent.max()):.2f}, nudges {int(nudges.max())}")
    return without_exception(
        "No budget is exceeded, own or shared: none in expectation, and no hard one in nudges.",
        exceptions,
        f"Largest of any run: {'; '.join(shown)}.",
    )


def _pooled_claim(data: xr.Dataset) -> Claim:
    others = ", ".join(f"{p} {float(np.mean(lead(data, f'{p} 300 shared', f'{p} 30 each'))):+.1f}" for p in THREE[1:])
    return claim(
        "One shared budget of 300 does better under PD2 than 30 for each of the ten users.",
        "Shared ahead of own, in seconds per session",
        [ahead("PD2", data, "PD2 300 shared", "PD2 30 each")],
        note=f"Under the others: {others}.",
    )


def _model_claim(users: str, data: xr.Dataset, numbers: Numbers) -> Claim:
    """The errors of users who learn together are correlated: the difference must be clear over users and trials."""
    others = ", ".join(
        f"{p} {float(np.mean(lead(data, f'{p} pooled', f'{p} own'))):+.1f}" for p in (*THREE[1:], REVEALED)
    )
    own, pooled = numbers["PD2 own"], numbers["PD2 pooled"]
    return claim(
        f"One model that all ten users learn together does better under PD2 than one for each ({users}).",
        "Pooled ahead of own, in seconds per session",
        [
            ahead("over users", data, "PD2 pooled", "PD2 own"),
            measure("over trials", lead_by_trial(data, "PD2 pooled", "PD2 own"), above=0.0),
        ],
        note=f"Under the others: {others}. PD2 revealed {own['reveals']:.1f} times per user with own models and "
        f"{pooled['reveals']:.1f} times with one, and sent at none of the last {LATE} sessions in "
        f"{100 * own['late_never']:.0f}% and {100 * pooled['late_never']:.0f}% of courses.",
    )
