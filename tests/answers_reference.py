"""A slow reading of PACE's response model (docs/pace.md, When people answer): all of it anew from all that happened."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HYPOTHESES = (
    (1.0, 0.0, 1.0), (0.85, 0.0, 1.0), (0.7, 0.0, 1.0), (1.0, 0.25, 8.0), (1.0, 0.25, 25.0), (1.0, 0.5, 40.0),
    (0.85, 0.25, 15.0),
)  # fmt: skip
PRIOR = (1 / 2, *[1 / 12] * 6)


class Happened(NamedTuple):
    """A nudge that was answered or not, or an opening of the app (`answered` is None)."""

    who: int
    step: int
    stratum: Any
    answered: bool | None


def log_beta(a: float, b: float) -> float:
    """The logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@dataclass
class Person:
    """What one hypothesis knows of a participant."""

    present: float  # A_h, as of ...
    step: int = 0
    answers: int = 0
    asked: dict[Any, float] = field(default_factory=lambda: defaultdict(float))
    nudges: list[int] = field(default_factory=list)


class Hypothesis:
    """What is known under one hypothesis once all of this has happened."""

    def __init__(self, gamma: float, alpha: float, spell: float, happened: Sequence[Happened]) -> None:
        self.gamma, self.alpha = gamma, alpha
        self.on = 1.0 / spell
        self.off = self.on * alpha / (1.0 - alpha)
        self.asked: dict[Any, float] = defaultdict(float)
        self.answers: dict[Any, int] = defaultdict(int)
        self.people: dict[int, Person] = defaultdict(lambda: Person(1.0 - alpha))
        self.log_likelihood = 0.0
        self.margins: list[float] = []  # by how much the evidence for strata won or lost
        for each in happened:
            self._take(each)

    def _take(self, each: Happened) -> None:
        person = self.people[each.who]
        if each.answered is None:
            person.present, person.step = 1.0, each.step
            return
        tired = self.gamma ** self.recent(each.who, each.step)
        odds, rate = self.odds(each.who, each.step, each.stratum), self.rate(each.stratum)
        present = self.present(each.who, each.step)
        self.log_likelihood += math.log(odds if each.answered else 1.0 - odds)
        present = 1.0 if each.answered else min(1.0, present * (1.0 - rate * tired) / (1.0 - odds))
        person.present, person.step = present, each.step
        person.nudges.append(each.step)
        for asked in (self.asked, person.asked):
            asked[each.stratum] += present * tired
        self.answers[each.stratum] += each.answered
        person.answers += each.answered

    def recent(self, who: int, step: int) -> int:
        """Own nudges in the last ten decisions."""
        return sum(step - 10 <= earlier < step for earlier in self.people[who].nudges)

    def present(self, who: int, step: int) -> float:
        """A_h, step by step."""
        person = self.people[who]
        present = person.present
        for _ in range(person.step, step):
            present = present * (1.0 - self.off) + (1.0 - present) * self.on if self.alpha else 1.0
        return present

    def rate(self, stratum: Any) -> float:
        """r_w."""
        answers, asked = sum(self.answers.values()), sum(self.asked.values())
        common = min(0.98, (1.5 + answers) / (2.0 + asked))
        each = [log_beta(1.5 + self.answers[w], 0.5 + max(0.0, n - self.answers[w])) for w, n in self.asked.items()]
        apart = sum(x - log_beta(1.5, 0.5) for x in each)
        together = log_beta(1.5 + answers, 0.5 + max(0.0, asked - answers)) - log_beta(1.5, 0.5)
        if len(each) > 1:
            self.margins.append(apart - together - 1e-9)
        pull = 2.0 if apart > together + 1e-9 else 8.0
        answered, nudges = self.answers.get(stratum, 0), self.asked.get(stratum, 0.0)
        return min(0.98, (answered + pull * common) / (nudges + pull))

    def odds(self, who: int, step: int, stratum: Any) -> float:
        """p_h."""
        person = self.people[who]
        usual = sum(n * self.rate(w) for w, n in person.asked.items())
        factor = max(0.5, (person.answers + 6.0) / (usual + 6.0))
        tired = float(self.gamma ** self.recent(who, step))
        return min(0.98, factor * self.rate(stratum) * self.present(who, step) * tired)


class Answers:
    """The cohort's knowledge at a decision of one of its participants."""

    def __init__(self, happened: Sequence[Happened]) -> None:
        self.each = [Hypothesis(*h, happened) for h in HYPOTHESES]
        most = max(h.log_likelihood for h in self.each)
        weights = [p * math.exp(h.log_likelihood - most) for p, h in zip(PRIOR, self.each, strict=True)]
        self.weights = [weight / sum(weights) for weight in weights]

    def usual(self, stratum: Any, rho: float) -> float:
        """rbar(w)."""
        both = zip(self.weights, self.each, strict=True)
        return float(sum(v * h.rate(stratum) * (1.0 - h.alpha) * h.gamma ** (10.0 * rho) for v, h in both))

    def now(self, who: int, step: int, stratum: Any) -> float:
        """r_now."""
        return sum(v * h.odds(who, step, stratum) for v, h in zip(self.weights, self.each, strict=True))

    def less(self, who: int, step: int, stratum: Any) -> float:
        """U, after an unanswered nudge at this step."""
        rates = [v * h.rate(stratum) for v, h in zip(self.weights, self.each, strict=True)]
        now = [
            rate * h.people[who].present * h.gamma ** (h.recent(who, step) + 1)
            for rate, h in zip(rates, self.each, strict=True)
        ]
        return 1.0 - sum(now) / sum(rates)

    def margins(self) -> list[float]:
        """Differences whose sign decides whether strata have rates of their own."""
        return [margin for h in self.each for margin in h.margins]
