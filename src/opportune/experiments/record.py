"""The JSON file of an experiment: written by the runner, read by the report and by the next run."""

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from opportune._version import __version__
from opportune.analysis.parts import source_hash
from opportune.errors import DataError, InputError
from opportune.experiments import NAMES
from opportune.experiments.claims import Claim, Verdict
from opportune.files import digest, digest_of, write_whole

Cell = bool | int | float | str | None
Text = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class FigureFiles(_Part):
    """A figure in two formats, with a caption and alternative text."""

    name: str
    caption: str
    alt: Text
    png: Text
    svg: Text


class Table(_Part):
    """A caption, the names of the columns, and rows of the same length."""

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
    """Everything that is kept of an experiment except its data."""

    experiment: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    title: Text
    about: str
    found: str = ""
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
    code: str = ""  # a hash of the sources that produced it
    files: dict[str, str] = Field(default_factory=dict)  # data and figures, each with its checksum

    @property
    def quick(self) -> bool:
        """Whether this was a short trial with too few repetitions for firm conclusions."""
        return self.config.get("quick") is True

    @property
    def seed(self) -> int | None:
        """The seed of every random draw, if recorded."""
        return self.config.get("seed")

    @property
    def score(self) -> str:
        """The number of claims that held, in words."""
        return f"{sum(claim.verdict is Verdict.HELD for claim in self.claims)} of {len(self.claims)} claims held"


def versions() -> dict[str, str]:
    """The versions behind a result: of this package, of Python and of the libraries that numbers depend on."""
    libraries = {name: version(name) for name in ("numpy", "numba", "scipy", "xarray")}
    return {"opportune": __version__, "python": platform.python_version(), **libraries}


def write_record(record: Record, path: Path) -> None:
    """Write an experiment's JSON file with its own checksum."""
    content = record.model_dump(mode="json")
    try:
        text = json.dumps({**content, "checksum": checksum_of(content)}, indent=1, allow_nan=False)
    except ValueError as error:
        raise InputError(f"{record.experiment} found a number that is not finite: {error}") from None
    write_whole(path, text.encode())


def read_record(path: Path) -> Record | None:
    """Read an experiment's JSON file; None if no experiment wrote it.

    Raises `DataError` if it is damaged, was changed, or is of another version.
    """
    try:
        text = path.read_bytes().decode()
        content = json.loads(text)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is damaged: it cannot be read as JSON ({error})") from None
    if not isinstance(content, dict) or "experiment" not in content:
        return None
    if content.get("checksum") != checksum_of(content):
        raise DataError(f"{path} is damaged or was changed: it does not match its checksum")
    try:
        return Record.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise DataError(f"{path} is of another version: {where}: {first['msg']}") from None


def find_finished(name: str, config: dict[str, Any], out: Path) -> tuple[Record | None, str]:
    """The record of an earlier run with this configuration and code, if all of its files are undamaged.

    Otherwise None and the reason, which is empty if there is no record.
    """
    path = out / f"{name}.json"
    if not path.is_file():
        return None, ""
    try:
        record = read_record(path)
    except DataError as error:
        return None, str(error)
    if record is None:
        return None, f"{path} was not written by an experiment"
    if record.config != json.loads(json.dumps(config)):
        return None, "existing results have another configuration"
    if (record.versions.get("opportune"), record.code) != (__version__, source_hash()):
        return None, "existing results come from another version of the code"
    damage = _damage(record, out)
    return (None, damage) if damage else (record, "")


def _damage(record: Record, out: Path) -> str:
    """The first of an experiment's files that is missing or damaged, in words."""
    expected = {f"{record.experiment}.nc", *(name for figure in record.figures for name in (figure.png, figure.svg))}
    for path in (out / name for name in sorted(expected | set(record.files))):
        if not path.is_file():
            return f"{path} is missing"
        if digest_of(path) != record.files.get(path.name):
            return f"{path} is damaged: it does not match its checksum"
    return ""


def checksum_of(content: Mapping[str, Any]) -> str:
    """The checksum of a record's content, without the checksum it contains."""
    return digest(json.dumps({k: v for k, v in content.items() if k != "checksum"}, sort_keys=True).encode())


def command(names: Sequence[str], *, seed: int | None, quick: bool) -> str:
    """The command line that runs these experiments, with "all" for all of them."""
    chosen = "all" if set(NAMES) <= set(names) else " ".join(names)
    seeded = "" if seed is None else f" --seed {seed}"
    return f"opportune reproduce {chosen}{seeded}{' --quick' if quick else ''}"
