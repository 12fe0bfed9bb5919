"""Worlds: the truth that policies are tried in.

A world tells the simulation what it is in numbers (`numbers`), what its agents know (`informed_problem`) and
what metrics need of the truth (`truth_table`).
"""

from typing import Any, Protocol, runtime_checkable

from opportune.worlds.linear import LinearWorld, synthetic_worlds

__all__ = ["LinearWorld", "SimulatedWorld", "synthetic_worlds"]


@runtime_checkable
class SimulatedWorld(Protocol):
    """What `simulate` needs of a world."""

    name: str

    @property
    def kind(self) -> int:
        """Which branch of worlds.step this is."""

    @property
    def history(self) -> int:
        """How many numbers the world keeps of its own past."""

    def numbers(self) -> Any:
        """The world as a flat array for the compiled loop."""

    def informed_problem(self) -> Any:
        """What the agents know, with what only the truth can tell where a policy asks for it."""

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """What metrics need of the truth."""
