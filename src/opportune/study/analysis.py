"""[analysis]: the primary analysis, fixed before the first participant."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from opportune.study.base import Table
from opportune.study.trial import Words

if TYPE_CHECKING:
    from opportune.inference.questions import Question


class PrimaryTable(Table):
    """`primary` in [analysis]: the analysis that the study is designed for."""

    estimand: Literal["nudge", "actions", "arms"] = Field(
        default="nudge", description="'nudge', 'actions' or 'arms', whose effect is estimated"
    )
    outcome: Words = Field(default="reward", description="a column of decisions.csv with numbers")
    lag: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="a whole number >= 1, the decision points over which outcomes are averaged",
    )
    controls: Words | None = Field(default=None, description="a formula of columns known before the decision")
    moderators: Words = Field(
        default="1", description="a formula of columns on which the effect may depend, '1' for none"
    )
    reference: Words | None = Field(default=None, description="the action or arm that others are compared with")


class AnalysisTable(Table):
    """[analysis]: the primary analysis, and how long a nudge's effect is followed."""

    primary: PrimaryTable | None = Field(default=None, description="a table such as { estimand = 'nudge', lag = 1 }")
    lag: int | None = Field(
        default=None, ge=2, le=10_000, description="a whole number >= 2, the decision points of the lasting effect"
    )

    def question(self, controls: str, arms: str = "1", control: str | None = None) -> "Question":
        """The primary analysis, with defaults for keys that the file does not set.

        Args:
            controls: the default formula of variables known before a decision.
            arms: the default formula of baseline variables, for a comparison of arms.
            control: the default arm for others to be compared with.

        """
        from opportune.inference.questions import Question  # noqa: PLC0415  (checking a file does without it)

        given = self.primary or PrimaryTable()
        values = given.model_dump()
        if given.estimand == "arms":
            return Question(**{**values, "controls": given.controls or arms, "reference": given.reference or control})
        return Question(**{**values, "controls": given.controls or controls})
