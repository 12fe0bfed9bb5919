"""The random numbers of each participant: by the study file's seed in a rehearsal, else by the study's secret seed."""

import hmac
from dataclasses import dataclass, field

from opportune.service.state.study import StudyInForce


@dataclass(frozen=True)
class Streams:
    """The seed and the stream that each participant's random numbers are drawn with."""

    seed: int = 0
    """Of all participants, in a rehearsal: participant i has stream i * 2^32, as world i of `simulate` has."""
    secret: bytes | None = field(default=None, repr=False)
    """What each participant's own seed and stream are derived from, where people take part."""
    known: bool = True
    """False where people take part and the secret seed is not at hand, as for an auditor before it is disclosed."""

    def of(self, number: int) -> tuple[int, int]:
        """The seed and the stream of participant `number`: 128 bits of HMAC-SHA256 with the secret seed as its key."""
        if self.secret is None:
            return self.seed, number << 32
        return derived(self.secret, "participant", number)

    @property
    def allocation(self) -> int:
        """The seed that permutes the blocks of arms."""
        return self.seed if self.secret is None else derived(self.secret, "arms", 0)[0]


def derived(secret: bytes, purpose: str, number: int) -> tuple[int, int]:
    """A seed and a stream for one purpose; nobody who lacks the secret can tell them from chance."""
    digest = hmac.digest(secret, f"{purpose} {number}".encode(), "sha256")
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")


def streams_for(running: StudyInForce, *, rehearsal: bool, secret: bytes | None) -> Streams:
    """The streams of a study."""
    return Streams(seed=running.seed) if rehearsal else Streams(secret=secret, known=secret is not None)
