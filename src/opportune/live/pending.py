"""Steps and rewards that wait: for a reveal that uncovers them, in which order they came, or for the model's update.

Both are kept as things happen, so that what a reveal costs depends on what it uncovers, not on all there ever was.
"""

from array import array
from collections.abc import Iterable, Mapping

from opportune.live.point import UNKNOWN, Step


class Pending:
    """What of an agent's steps waits for a reveal."""

    __slots__ = ("_arrivals", "_next", "_numbers", "sealed", "waiting")

    def __init__(self) -> None:
        self.sealed: set[int] = set()
        """Steps whose reported values are known, but not to the revealer yet."""
        self.waiting: set[int] = set()
        """Steps whose rewards wait for the model's next update."""
        self._arrivals: dict[int, int] = {}
        self._next = 0
        self._numbers: array[int] | None = array("q")  # the keys of arrivals, until some of them have gone

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
        if self._numbers is not None:
            self._numbers.append(number)

    def order(self) -> list[int]:
        """Steps in the order in which their rewards came, of those that the revealer has not seen."""
        return list(self._arrivals)

    def order_bytes(self) -> bytes:
        """The order as bytes, eight for each step: there may be many, and they are stored with every decision."""
        if self._numbers is None:
            self._numbers = array("q", self._arrivals)
        return self._numbers.tobytes()

    def set_order(self, numbers: Iterable[int]) -> None:
        """Take over an order from `order`."""
        self._arrivals = {number: place for place, number in enumerate(numbers)}
        self._next = len(self._arrivals)
        self._numbers = None

    def open(self, steps: Mapping[int, Step]) -> tuple[list[Step], list[Step]]:
        """What a reveal uncovers: the sealed steps in order, and those with rewards as these came."""
        found = [steps[number] for number in sorted(self.sealed)]
        with_rewards = sorted(self.sealed & self._arrivals.keys(), key=self._arrivals.__getitem__)
        for number in with_rewards:
            del self._arrivals[number]
            self._numbers = None
        self.sealed.clear()
        return found, [steps[number] for number in with_rewards]
