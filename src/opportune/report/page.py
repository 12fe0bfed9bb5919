"""The report: one self-contained HTML page from the results that experiments left in a directory."""

import base64
import json
import math
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import ValidationError

from opportune.errors import DataError
from opportune.experiments import NAMES
from opportune.experiments.claims import Claim, Verdict
from opportune.experiments.record import Cell, FigureFiles, Record, Table, check_record, command
from opportune.files import write_whole

LARGEST_SVG = 2_000_000
"""Bytes. A heavier drawing makes a slow page, so the PNG beside it stands in."""

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NOTHING = "–"


@dataclass(frozen=True, kw_only=True)
class Image:
    """A figure's file as a data URI, with its size in pixels for the layout."""

    uri: str
    width: int
    height: int

    @property
    def wide(self) -> bool:
        """Whether it would be too small to read when fitted to the width of a phone."""
        return self.width > 1.9 * self.height


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many claims held, did not hold, and were not decided."""

    held: int
    not_held: int
    undecided: int

    @property
    def total(self) -> int:
        """All claims."""
        return self.held + self.not_held + self.undecided


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Results that come from the same seed, size, machine and versions, and the command that gives them again."""

    records: list[Record]
    command: str


def write_report(directory: Path) -> Path:
    """Write `report.html` from every result in a directory; it appears only once it is complete.

    JSON files that no experiment wrote (no `experiment` key) are left alone. A result that cannot be read,
    or whose figure is missing, is a `DataError` that names the file.
    """
    results = _read_results(directory)
    page = _render(directory, results)
    target = directory / "report.html"
    write_whole(target, page.encode())
    return target


# Reading


def _read_results(directory: Path) -> list[Record]:
    if not directory.is_dir():
        raise DataError(f"{directory} is not a directory; run `opportune reproduce` to make results")
    files: dict[str, Path] = {}
    results: list[Record] = []
    for file in sorted(directory.glob("*.json")):
        result = _read_result(file)
        if result is None:
            continue
        if result.experiment in files:
            first = files[result.experiment].name
            raise DataError(f"{file}: holds experiment {result.experiment!r}, as {first} does; expected one file")
        files[result.experiment] = file
        results.append(result)
    if not results:
        raise DataError(f"{directory} holds no results; run `opportune reproduce` to make some")
    return sorted(results, key=lambda result: _place(result.experiment))


def _read_result(file: Path) -> Record | None:
    try:
        text = file.read_text(encoding="utf-8")
        content = json.loads(text)
    except ValueError as error:  # not UTF-8, or not JSON
        raise DataError(f"{file}: not readable as JSON: {error}") from error
    if not isinstance(content, dict) or "experiment" not in content:
        return None
    check_record(file, content)
    try:
        return Record.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise DataError(f"{file}: {where}: {first['msg']}") from error


def _place(experiment: str) -> tuple[int, str]:
    """The paper's experiments in their order, all others after them by name."""
    return (NAMES.index(experiment) if experiment in NAMES else len(NAMES), experiment)


def _read_picture(directory: Path, figure: FigureFiles) -> Image:
    svg, png = (_inside(directory, name) for name in (figure.svg, figure.png))
    if svg.stat().st_size > LARGEST_SVG:
        return _read_png(png)
    return _read_svg(svg)


def _inside(directory: Path, name: str) -> Path:
    file = directory / name
    if not file.resolve().is_relative_to(directory.resolve()):
        raise DataError(f"{file}: figure lies outside {directory}; expected a file within it")
    if not file.is_file():
        raise DataError(f"{file}: figure is missing; run its experiment again")
    return file


def _read_svg(file: Path) -> Image:
    content = file.read_bytes()
    try:
        root = ElementTree.fromstring(content)
        _, _, width, height = (float(part) for part in root.attrib["viewBox"].replace(",", " ").split())
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise DataError(f"{file}: not readable as SVG with a viewBox: {error!r}") from error
    if not root.tag.endswith("svg") or not (width > 0 and height > 0):
        raise DataError(f"{file}: root is {root.tag!r}, {width:g} by {height:g}; expected a drawing")
    pixels = 4 / 3 if root.get("width", "").endswith("pt") else 1  # CSS: 96 pixels are 72 points
    return _picture("image/svg+xml", content, width * pixels, height * pixels)


def _read_png(file: Path) -> Image:
    content = file.read_bytes()
    # Eight bytes of signature, then a chunk: four bytes of length, its name IHDR, width and height.
    if content[:8] != b"\x89PNG\r\n\x1a\n" or len(content) < 24:
        raise DataError(f"{file}: not readable as PNG")
    width, height = struct.unpack(">II", content[16:24])
    return _picture("image/png", content, width, height)


def _picture(kind: str, content: bytes, width: float, height: float) -> Image:
    uri = f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
    return Image(uri=uri, width=round(width), height=round(height))


# Counting and grouping


def _tally(claims: Iterable[Claim]) -> Tally:
    verdicts = Counter(claim.verdict for claim in claims)
    return Tally(
        held=verdicts[Verdict.HELD], not_held=verdicts[Verdict.NOT_HELD], undecided=verdicts[Verdict.NOT_DECIDED]
    )


def _origins(results: Sequence[Record]) -> list[Origin]:
    """Results grouped by what they come from; whether they came by one command or by several does not matter."""
    groups: dict[str, list[Record]] = {}
    for result in results:
        origin = json.dumps([result.seed, result.quick, result.machine, sorted(result.versions.items())])
        groups.setdefault(origin, []).append(result)
    return [
        Origin(
            records=group,
            command=command([one.experiment for one in group], seed=group[0].seed, quick=group[0].quick),
        )
        for group in groups.values()
    ]


def _is_numeric(table: Table, column: int) -> bool:
    """Whether a column holds numbers, or text that begins like one ('0.77 ± 0.05'), and nothing else."""
    cells = [row[column] for row in table.rows if row[column] is not None]
    return bool(cells) and all(_reads_as_number(cell) for cell in cells)


# Writing for people


def _render(directory: Path, results: list[Record]) -> str:
    environment = Environment(
        loader=PackageLoader("opportune.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=_number, duration=_duration, day=_day, moment=_moment, setting=_setting)
    pictures = {
        (result.experiment, at): _read_picture(directory, figure)
        for result in results
        for at, figure in enumerate(result.figures)
    }
    return environment.get_template("report.html.jinja").render(
        results=results,
        pictures=pictures,
        tallies={result.experiment: _tally(result.claims) for result in results},
        total=_tally(claim for result in results for claim in result.claims),
        seconds=sum(result.seconds for result in results),
        first=min(result.finished for result in results),
        last=max(result.finished for result in results),
        origins=_origins(results),
        Verdict=Verdict,
        is_numeric=_is_numeric,
    )


def _reads_as_number(cell: Cell) -> bool:
    if isinstance(cell, str):
        return cell.strip().lstrip("+-−±<>≤≥≈~ ")[:1].isdigit() or cell.strip() in {"", NOTHING, "-", "—"}
    return not isinstance(cell, bool)


def _number(cell: Cell) -> str:
    """A cell of a table: text as it is, floats to three significant digits."""
    match cell:
        case None:
            return NOTHING
        case bool():
            return "yes" if cell else "no"
        case str():
            return cell
        case int():
            return (f"{cell:,}" if abs(cell) >= 10_000 else str(cell)).replace("-", "−")
        case float():
            return _real(cell).replace("-", "−")


def _real(value: float) -> str:
    if math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1e-4 or size >= 1e9:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits} × 10{str(int(power)).translate(SUPERSCRIPTS)}"
    if size >= 99.95:
        return f"{value:,.0f}" if size >= 9_999.5 else f"{value:.0f}"
    return f"{value:#.3g}"


def _duration(seconds: float) -> str:
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _day(moment: datetime) -> str:
    here = moment.astimezone(UTC)
    return f"{here.day} {MONTHS[here.month - 1]} {here.year}"


def _moment(moment: datetime) -> str:
    return f"{_day(moment)}, {moment.astimezone(UTC):%H:%M} UTC"


def _setting(value: Any) -> str:
    """A setting as people write it: lists with commas, no quotes and no braces."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_setting(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_setting(inner) for inner in value)
    if isinstance(value, float):
        return f"{value:g}"
    return _number(value) if isinstance(value, bool) or value is None else str(value)
