"""Worlds: the truth in which policies are tested.

A world gives the simulation its numbers (`numbers`), the knowledge of its agents (`informed_problem`) and the truth for
metrics (`truth_table`). Its compiled functions, static methods of its class, are called by the batch loop:
`arrive(p, own, draws, step, arrival)` -> Moment, `respond(p, own, draws, moment, action, noise)` -> (reward, outcome,
best possible outcome) and `blind_value(p, own, moment, action, outcome)`; `own` contains what the world declares
(engine.declared.Declares): its settings, and the state that it keeps of its own past.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from opportune.engine.declared import Declares, Owner
from opportune.engine.hooks import WORLDS as WORLDS
from opportune.engine.layout import Layout

# Each import registers a world.
from opportune.worlds.brushing.world import BrushingWorld as BrushingWorld
from opportune.worlds.brushing.world import brushing_world as brushing_world
from opportune.worlds.common import Happenings
from opportune.worlds.continuous import ContinuousWorld as ContinuousWorld
from opportune.worlds.drifting import DriftingWorld as DriftingWorld
from opportune.worlds.linear import LinearWorld as LinearWorld
from opportune.worlds.linear import synthetic_worlds as synthetic_worlds
from opportune.worlds.logged import ResampledWorld as ResampledWorld
from opportune.worlds.steps import StepCountWorld as StepCountWorld


@runtime_checkable
class SimulatedWorld(Protocol):
    """The interface that `simulate` requires of a world."""

    name: str

    @property
    def number(self) -> int:
        """The number of the world's kind in the registry."""

    @property
    def declares(self) -> Declares:
        """The groups that the world declares: settings, and the state that it keeps of its past."""

    @property
    def happenings(self) -> Happenings:
        """The effect on decision points and rewards: openings, answers, absences, late and lost rewards, bounds."""

    def extents(self) -> Mapping[str, int]:
        """The lengths of dimensions that its declarations name and problems lack."""

    def numbers(self) -> Mapping[str, Any]:
        """The world as numbers, for the fields of its settings."""

    def informed_problem(self) -> Any:
        """The agents' knowledge, including facts from the truth that some policies require."""

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """The truth that metrics need."""


def owner_of(world: SimulatedWorld) -> Owner:
    """The declarations of a world, with the lengths of its dimensions."""
    return Owner(world.declares, tuple(world.extents().items()))


def in_numbers(world: SimulatedWorld, at: Layout) -> Any:
    """A world as the flat array that compiled code reads."""
    happenings = world.happenings.numbers(
        world.number, getattr(world, "opens_hold", 1), strata=at.sizes.strata,
        per_day=world.informed_problem().schedule.decisions_per_day,
    )  # fmt: skip
    return at.filled("world", happenings=happenings, world_settings=world.numbers())
