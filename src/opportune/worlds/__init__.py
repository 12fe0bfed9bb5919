"""Worlds: the truth that policies are tried in.

A world tells the simulation what it is in numbers (`numbers`), what its agents know (`informed_problem`) and what
metrics need of the truth (`truth_table`). Its compiled functions, static methods of its class, are called by the batch
loop: `start(world, history)`, `arrive(world, history, p, draws, step, arrival)` -> Moment,
`respond(world, history, p, draws, moment, action, noise)` -> (reward, outcome, best possible outcome) and
`blind_value(world, p, moment, action, outcome)`.
"""

from typing import Any, Protocol, runtime_checkable

from opportune.core.registry import WORLDS
from opportune.worlds.brushing.world import BrushingWorld, brushing_world
from opportune.worlds.common import Happenings
from opportune.worlds.continuous import ContinuousWorld
from opportune.worlds.drifting import DriftingWorld
from opportune.worlds.linear import LinearWorld, synthetic_worlds

__all__ = [
    "WORLDS", "BrushingWorld", "ContinuousWorld", "DriftingWorld", "LinearWorld", "SimulatedWorld", "brushing_world",
    "synthetic_worlds",
]  # fmt: skip


@runtime_checkable
class SimulatedWorld(Protocol):
    """What `simulate` needs of a world."""

    name: str

    @property
    def number(self) -> int:
        """Its kind's number in the registry."""

    @property
    def history(self) -> int:
        """How many numbers the world keeps of its own past."""

    @property
    def happenings(self) -> Happenings:
        """What it does to decision points: openings, answers, availability, late and lost rewards."""

    def numbers(self) -> Any:
        """The world as a flat array for the compiled loop."""

    def informed_problem(self) -> Any:
        """What the agents know, with what only the truth can tell where a policy asks for it."""

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """What metrics need of the truth."""


for _world in (LinearWorld, ContinuousWorld, BrushingWorld, DriftingWorld):
    WORLDS.add(_world)
