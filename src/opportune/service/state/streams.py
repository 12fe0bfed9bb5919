"""Each participant's random numbers: from the study file's seed in a rehearsal, else from the study's secret seed."""

import hmac
from dataclasses import dataclass, field

from opportune.service.state.study import StudyInForce


@dataclass(frozen=True)
class Streams:
    """The seed and the stream from which each participant's random numbers are drawn."""

    seed: int = 0
    """In a rehearsal, the seed of all participants: participant i has stream i * 2^32, like world i of `simulate`."""
    secret: bytes | None = field(default=None, repr=False)
    """In a study with people, the secret from which each participant's own seed and stream are derived."""
    known: bool = True
    """False in a study with people whose secret seed is missing, as for an auditor before it is disclosed."""

    def of(self, number: int) -> tuple[int, int]:
        """The seed and the stream of participant `number`: 128 bits of HMAC-SHA256 keyed with the secret seed."""
        if self.secret is None:
            return self.seed, number << 32
        return derived(self.secret, "participant", number)

    @property
    def allocation(self) -> int:
        """The seed that permutes the blocks of arms."""
        return self.seed if self.secret is None else derived(self.secret, "arms", 0)[0]


def derived(secret: bytes, purpose: str, number: int) -> tuple[int, int]:
    """A seed and a stream for one purpose; without the secret, they cannot be told from random numbers."""
    digest = hmac.digest(secret, f"{purpose} {number}".encode(), "sha256")
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")


def streams_for(running: StudyInForce, *, rehearsal: bool, secret: bytes | None) -> Streams:
    """The streams of a study."""
    return Streams(seed=running.seed) if rehearsal else Streams(secret=secret, known=secret is not None)
