"""`Limits`: where a nudge is allowed, in addition to the calendar, and the actions of a run-in."""

from dataclasses import dataclass

from opportune import checks
from opportune.errors import InputError
from opportune.recommenders.fixed import MOST_ACTION

RUN_INS = ("equal", "fixed")
MOST_PER_WEEK = 1000
MOST_HOURS = 24.0 * 366.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on nudges, in addition to a calendar; where no nudge is allowed, the rule is not called.

    Every nudge made counts, answered or not.

    Args:
        run_in: decision points without nudges at a participant's beginning.
        run_in_actions: actions during the run-in: "equal" draws each allowed one with equal probability; "fixed" always
            takes the same.
        run_in_action: the number of the fixed action; it must be allowed at every moment.
        per_week: the most nudges for one participant in any seven days (168 hours).
        least_hours_between: the least number of hours between two nudges for one participant.
        per_day: the most nudges that staff can make in one of their days, for all participants together.

    """

    run_in: int = 0
    run_in_actions: str = "equal"
    run_in_action: int | None = None
    per_week: int | None = None
    least_hours_between: float | None = None
    per_day: int | None = None

    def __post_init__(self) -> None:
        checks.keep(self, run_in=checks.whole("run_in", self.run_in, least=0, most=checks.MOST_STEPS))
        checks.keep(self, run_in_actions=checks.choice("run_in_actions", self.run_in_actions, RUN_INS))
        if self.run_in_action is not None:
            checks.keep(
                self, run_in_action=checks.whole("run_in_action", self.run_in_action, least=0, most=MOST_ACTION)
            )
        if (self.run_in_actions == "fixed") != (self.run_in_action is not None):
            raise InputError(
                f"run_in_actions is {self.run_in_actions!r} and run_in_action is {self.run_in_action}; "
                "expected the number of an action with 'fixed', and none otherwise"
            )
        if self.per_week is not None:
            checks.keep(self, per_week=checks.whole("per_week", self.per_week, least=1, most=MOST_PER_WEEK))
        if self.least_hours_between is not None:
            hours = checks.real("least_hours_between", self.least_hours_between, above=0.0, most=MOST_HOURS)
            checks.keep(self, least_hours_between=hours)
        if self.per_day is not None:
            checks.keep(self, per_day=checks.whole("per_day", self.per_day, least=1, most=2**31))

    @property
    def by_the_clock(self) -> bool:
        """Whether any limit depends on the hours of decision points."""
        return self.per_week is not None or self.least_hours_between is not None

    @property
    def remembered(self) -> int:
        """The number of past nudges whose times are needed."""
        return self.per_week or int(self.by_the_clock)

    def numbers(self) -> dict[str, float]:
        """The limits for compiled code, 0 for none."""
        return {
            "run_in": self.run_in,
            "run_in_equal": self.run_in_actions == "equal",
            "run_in_action": self.run_in_action or 0,
            "per_week": self.per_week or 0,
            "least_hours_between": self.least_hours_between or 0.0,
            "per_day": self.per_day or 0,
        }
