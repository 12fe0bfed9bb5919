"""The fitted users of a study as a table, and its readable file."""

import importlib.resources
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from opportune import checks
from opportune.errors import DataError, InputError
from opportune.files import write_whole
from opportune.worlds.brushing import step

FloatArray = NDArray[np.float64]

_AtLeast0 = Annotated[float, Field(ge=0.0)]
_Strata = Annotated[list[float], Field(min_length=4, max_length=4)]


class _Record(BaseModel):
    """A part of a table's file: no missing or unknown fields, no conversion, no NaN."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Effects(_Record):
    """The average effects of a message: Delta for not brushing (b) and for the rate (n), and sds over users."""

    delta_b: _AtLeast0
    delta_n: _AtLeast0
    sd_b: _AtLeast0
    sd_n: _AtLeast0
    small_b: _AtLeast0 | None
    """Half the smallest feature mean (ROBAS 2 only)."""
    small_n: _AtLeast0 | None
    """Half the smallest feature mean, for the rate (ROBAS 2 only)."""


class Provenance(_Record):
    """The origin of a table: file, its checksum, the method and date of the fit, and the version."""

    source: str
    sha256: str
    recipe: str
    date: str
    version: str


@dataclass(frozen=True, kw_only=True, eq=False)
class BrushingTable:
    """The fitted users of a study: row u of every array is user u. Strata are tod + 2*weekend."""

    study: str
    w_b: FloatArray
    """Weights of g for not brushing, [users, entries of g]."""
    w_p: FloatArray
    """Weights of g for the log rate, [users, entries of g]."""
    first_weekend: NDArray[np.int64]
    """Session w0 at which the user's first weekend begins."""
    sessions: NDArray[np.int64]
    """The number of sessions in the fit."""
    log_posterior: FloatArray
    """Log likelihood plus log prior density at the weights."""
    gradient_norm: FloatArray
    """Euclidean norm of its gradient there."""
    converged: NDArray[np.bool_]
    """Whether that norm is below 1e-6."""
    starts_agree: NDArray[np.bool_]
    """Whether every start reached these weights, to 1e-6."""
    cell_prior: FloatArray
    """Mean of `prior` in each stratum when no message is ever sent, [users, 4]."""
    cell_prop: FloatArray
    """Mean of `prop` in each stratum when no message is ever sent, [users, 4]."""
    effects: Effects
    provenance: Provenance

    @property
    def users(self) -> int:
        """The number of users."""
        return int(self.w_b.shape[0])


class _UserEntry(_Record):
    """One user in a table's file; the names are those of the table's arrays."""

    user: int
    sessions: int = Field(ge=1)
    first_weekend: int = Field(ge=0)
    w_b: list[float]
    w_p: list[float]
    log_posterior: float
    gradient_norm: float = Field(ge=0.0)
    converged: bool
    starts_agree: bool
    cell_prior: _Strata
    cell_prop: _Strata


class _TableFile(_Record):
    """A table's file."""

    study: Literal["robas2", "robas3"]
    provenance: Provenance
    features: list[str]
    effects: Effects
    users: list[_UserEntry] = Field(min_length=1)


_USER_ARRAYS = tuple(name for name in _UserEntry.model_fields if name != "user")


def save_table(table: BrushingTable, path: str | Path) -> None:
    """Write a table as readable JSON: users numbered, one line per field."""
    users = []
    for user in range(table.users):
        entry = {"user": user} | {name: getattr(table, name)[user].tolist() for name in _USER_ARRAYS}
        users.append(f"    {_json_block(entry, 4)}")
    parts = (
        f'  "study": {json.dumps(table.study)}',
        f'  "provenance": {_json_block(table.provenance.model_dump(), 2)}',
        f'  "features": {json.dumps(step.feature_names(table.study))}',
        f'  "effects": {_json_block(table.effects.model_dump(), 2)}',
        '  "users": [\n' + ",\n".join(users) + "\n  ]",
    )
    write_whole(Path(path), ("{\n" + ",\n".join(parts) + "\n}\n").encode())


def _json_block(entry: dict[str, Any], indent: int) -> str:
    """A JSON object with one line per field; lists stay on their line."""
    pad = " " * indent
    rows = [f"{pad}  {json.dumps(name)}: {json.dumps(value)}" for name, value in entry.items()]
    return "{\n" + ",\n".join(rows) + f"\n{pad}}}"


def load_table(study: str | Path) -> BrushingTable:
    """The table shipped for a study (`robas2`, `robas3`), or the one in a file written by `save_table`."""
    if not isinstance(study, str | Path):
        raise InputError(f"table is {checks.brief(study)}; expected a table, or the path of its file")
    try:
        if study in step.SCALES:
            folder = importlib.resources.files("opportune.worlds.brushing")
            text = folder.joinpath("tables", f"{study}.json").read_text(encoding="utf-8")
        else:
            text = checks.path("table", study).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        known = ", ".join(step.SCALES)
        text = f"no table {checks.brief(str(study))}; expected one of {known}, or a readable file"
        raise InputError(text) from problem
    try:
        content = _TableFile.model_validate_json(text)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(f"{study}: {where}: {first['msg']}; found {first['input']!r:.80}") from problem
    _check_table(str(study), content)
    arrays = {name: np.array([getattr(user, name) for user in content.users]) for name in _USER_ARRAYS}
    return BrushingTable(study=content.study, effects=content.effects, provenance=content.provenance, **arrays)


def _check_table(source: str, content: _TableFile) -> None:
    """Reject a table whose parts do not fit together."""
    names = step.feature_names(content.study)
    if content.features != list(names):
        raise DataError(f"{source}: features: found {content.features}; expected {list(names)}")
    for number, entry in enumerate(content.users):
        if entry.user != number:
            raise DataError(f"{source}: users.{number}.user: found {entry.user}; expected {number}")
        for label, weights in (("w_b", entry.w_b), ("w_p", entry.w_p)):
            if len(weights) != len(names):
                raise DataError(
                    f"{source}: users.{number}.{label}: found {len(weights)} weights; expected {len(names)}"
                )
    given = {content.effects.small_b is not None, content.effects.small_n is not None}
    if given != {content.study == "robas2"}:
        raise DataError(f"{source}: effects: small_b and small_n belong to robas2 and to no other study")
