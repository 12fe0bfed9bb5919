"""Limits on failures: wrong keys and wrong passwords are counted by address, and too many are refused (429).

Only failures count. A valid key is always accepted, whatever others do from the same address, so apps are never slowed,
even behind a shared proxy. Each process counts separately.
"""

import threading
import time
from collections.abc import Callable

from opportune.service.problems import Refused

KEYS, KEY_SECONDS = 100, 60
"""The most wrong keys from one address within this many seconds."""
SIGN_INS, SIGN_IN_SECONDS = 30, 300
"""The most wrong passwords and links from one address within this many seconds; a clinic's staff may share one."""
_MOST_ADDRESSES = 10_000


class Failures:
    """Counts failures by address, in windows of `seconds`."""

    def __init__(self, what: str, most: int, seconds: int, now: Callable[[], float] = time.monotonic) -> None:
        self._what, self._most, self._seconds, self._now = what, most, seconds, now
        self._lock = threading.Lock()
        self._counted: dict[str, tuple[float, int]] = {}

    def check(self, address: str) -> None:
        """Refuse an address that has failed too often, before doing costly work for it."""
        begun, count = self._counted.get(address, (0.0, 0))
        left = begun + self._seconds - self._now()
        if count > self._most and left > 0.0:
            text = f"more than {self._most} {self._what} from this address within {self._seconds} seconds"
            raise Refused("too_many", f"{text}; expected a pause of {int(left) + 1} seconds")

    def count(self, address: str) -> None:
        """Count a failure; refuse if that makes too many."""
        with self._lock:
            now = self._now()
            begun, count = self._counted.get(address, (now, 0))
            if now - begun >= self._seconds:
                begun, count = now, 0
            if len(self._counted) >= _MOST_ADDRESSES and address not in self._counted:
                self._forget(now)
            self._counted[address] = begun, count + 1
        self.check(address)

    def take_back(self, address: str) -> None:
        """Uncount a failure, as the attempt succeeded in the end."""
        with self._lock:
            begun, count = self._counted.get(address, (0.0, 0))
            if count > 0:
                self._counted[address] = begun, count - 1

    def _forget(self, now: float) -> None:
        """Make room: drop windows that are over, or all if that is not enough."""
        kept = {who: entry for who, entry in self._counted.items() if now - entry[0] < self._seconds}
        self._counted = kept if len(kept) < _MOST_ADDRESSES else {}


class Limits:
    """The failures that a service counts."""

    def __init__(self) -> None:
        self.keys = Failures("wrong keys", KEYS, KEY_SECONDS)
        self.sign_in = Failures("failed attempts to sign in", SIGN_INS, SIGN_IN_SECONDS)
