"""Worlds: the truth that policies are tried in.

A world tells the simulation what it is in numbers (`numbers`), what its agents know (`informed_problem`) and what
metrics need of the truth (`truth_table`). Its compiled functions, static methods of its class, are called by the batch
loop: `arrive(p, own, draws, step, arrival)` -> Moment, `respond(p, own, draws, moment, action, noise)` -> (reward,
outcome, best possible outcome) and `blind_value(p, own, moment, action, outcome)`; `own` has what the world declares
(engine.declared.Declares): its settings, and the state that it keeps of its own past.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from opportune.engine.declared import Declares, Owner
from opportune.engine.hooks import WORLDS as WORLDS
from opportune.engine.layout import Layout

# Each registers itself.
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
    """What `simulate` needs of a world."""

    name: str

    @property
    def number(self) -> int:
        """The number of its kind in the registry."""

    @property
    def declares(self) -> Declares:
        """What it has of its own: settings, and the state that it keeps of its past."""

    @property
    def happenings(self) -> Happenings:
        """What it does to decision points and rewards: openings, answers, absences, late and lost rewards, bounds."""

    def extents(self) -> Mapping[str, int]:
        """The lengths of dimensions that its declarations name and problems do not have."""

    def numbers(self) -> Mapping[str, Any]:
        """The world in numbers, for the fields of its settings."""

    def informed_problem(self) -> Any:
        """What the agents know, with what only the truth can tell where a policy asks for it."""

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """What metrics need of the truth."""


def owner_of(world: SimulatedWorld) -> Owner:
    """What a world declares, with the lengths of its dimensions."""
    return Owner(world.declares, tuple(world.extents().items()))


def in_numbers(world: SimulatedWorld, at: Layout) -> Any:
    """A world as the flat array that compiled code takes."""
    happenings = world.happenings.numbers(
        world.number, getattr(world, "opens_hold", 1), strata=at.sizes.strata,
        per_day=world.informed_problem().schedule.decisions_per_day,
    )  # fmt: skip
    return at.filled("world", happenings=happenings, world_settings=world.numbers())
