"""What an experiment leaves in its JSON file: written by the runner, read by the report."""

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from opportune.experiments import NAMES
from opportune.experiments.claims import Claim

Cell = bool | int | float | str | None
Text = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class FigureFiles(_Part):
    """A drawing in two formats, with what to see in it and what it shows to those who cannot see it."""

    name: str
    caption: str
    alt: Text
    png: Text
    svg: Text


class Table(_Part):
    """A caption, the names of the columns, and rows as long as these."""

    caption: str
    columns: list[str]
    rows: list[list[Cell]]

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        for at, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {at} has {len(row)} cells; expected {len(self.columns)}")
        return self


class Record(_Part):
    """All that is kept of an experiment beside its data."""

    experiment: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: Text
    about: str
    config: dict[str, Any]
    numbers: dict[str, Any]
    claims: list[Claim]
    figures: list[FigureFiles]
    tables: list[Table]
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    finished: AwareDatetime
    versions: dict[str, str]
    machine: str
    command: str

    @property
    def quick(self) -> bool:
        """Whether this was a short trial with too few repetitions for firm conclusions."""
        return self.config.get("quick") is True

    @property
    def seed(self) -> int | None:
        """The seed of every random draw, if it is recorded."""
        return self.config.get("seed")


def command(names: Sequence[str], *, seed: int | None, quick: bool) -> str:
    """The command line that runs these experiments; all of them are called that."""
    chosen = "all" if set(NAMES) <= set(names) else " ".join(names)
    seeded = "" if seed is None else f" --seed {seed}"
    return f"opportune reproduce {chosen}{seeded}{' --quick' if quick else ''}"
