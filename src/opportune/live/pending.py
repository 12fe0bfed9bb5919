"""Steps that no reveal has uncovered: which of them one would uncover, and in which order their rewards came.

Both are kept as things happen, so that what a reveal costs depends on what it uncovers, not on all there ever was.
"""

from collections.abc import Iterable, Mapping

from opportune.live.point import UNKNOWN, Step


class Pending:
    """What of an agent's steps waits for a reveal."""

    __slots__ = ("_arrivals", "_next", "sealed")

    def __init__(self) -> None:
        self.sealed: set[int] = set()
        """Steps whose reported values are known, but not to the revealer yet."""
        self._arrivals: dict[int, int] = {}
        self._next = 0

    def note(self, step: Step) -> None:
        """Something has changed about a step: it may be sealed now, or no longer."""
        if step.settled and not step.seen and step.place.context != UNKNOWN:
            self.sealed.add(step.step)
        else:
            self.sealed.discard(step.step)

    def rewarded(self, number: int) -> None:
        """The reward of a step has come that the revealer has not seen."""
        self._arrivals[number] = self._next
        self._next += 1

    def order(self) -> list[int]:
        """Steps in the order in which their rewards came, of those that the revealer has not seen."""
        return list(self._arrivals)

    def set_order(self, numbers: Iterable[int]) -> None:
        """Take over an order from `order`."""
        self._arrivals = {number: place for place, number in enumerate(numbers)}
        self._next = len(self._arrivals)

    def open(self, steps: Mapping[int, Step]) -> tuple[list[Step], list[Step]]:
        """What a reveal uncovers: the sealed steps in order, and those with rewards as these came."""
        found = [steps[number] for number in sorted(self.sealed)]
        with_rewards = sorted(self.sealed & self._arrivals.keys(), key=self._arrivals.__getitem__)
        for number in with_rewards:
            del self._arrivals[number]
        self.sealed.clear()
        return found, [steps[number] for number in with_rewards]
