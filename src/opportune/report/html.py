"""What all pages share: templates, numbers for readers, figures as data, and writing a file in one step."""

import base64
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from jinja2 import Environment, PackageLoader, StrictUndefined

from opportune.errors import DataError
from opportune.experiments.claims import Verdict
from opportune.experiments.record import Cell, Table
from opportune.files import digest_of, write_whole

LARGEST_SVG = 2_000_000
"""Bytes; a larger drawing slows the page down, so the PNG is shown instead."""

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NOTHING = "–"
SHORT, PROSE = 20, 40
"""Cells of up to SHORT letters stay on one line; those of more than PROSE get a wide column."""
MOST_WORDS = 0.4
"""A column counts as numeric if at most this share of its cells contain words."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """A figure's file as a data URI, with its size in pixels for the layout."""

    uri: str
    width: int
    height: int


def render(template: str, **content: Any) -> str:
    """A page from its template."""
    environment = Environment(
        loader=PackageLoader("opportune.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=_number, duration=_duration, day=_day, moment=_moment, setting=_setting)
    environment.globals.update(Verdict=Verdict, is_numeric=_is_numeric, text_kind=_text_kind)
    return environment.get_template(template).render(**content)


def write_page(page: str, target: Path) -> Path:
    """Write a page; the file appears only once it is complete."""
    write_whole(target, page.encode())
    return target


def read_picture(directory: Path, svg_name: str, png_name: str, *, checksums: Mapping[str, str] | None = None) -> Image:
    """A figure from its two undamaged files: the drawing, or the bitmap if the drawing is too large."""
    svg, png = (_inside(directory, name) for name in (svg_name, png_name))
    for file in (svg, png):
        if checksums and file.name in checksums and digest_of(file) != checksums[file.name]:
            raise DataError(f"{file} is damaged: it does not match its checksum; run its experiment again")
    return _read_png(png) if svg.stat().st_size > LARGEST_SVG else _read_svg(svg)


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
    pixels = 4 / 3 if root.get("width", "").endswith("pt") else 1  # in CSS, 96 pixels are 72 points
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


def _text_kind(cell: Cell) -> str:
    """The layout of a text cell: "short" stays on one line, "prose" gets a wide column."""
    if not isinstance(cell, str):
        return ""
    return "short" if len(cell) <= SHORT else "prose" if len(cell) > PROSE else ""


def _is_numeric(table: Table, column: int) -> bool:
    """Whether a column contains numbers, or text that begins like one ('0.77 ± 0.05').

    A few cells may contain words instead ('cannot tell').
    """
    cells = [row[column] for row in table.rows if row[column] is not None]
    words = [cell for cell in cells if not _reads_as_number(cell)]
    few = len(words) < MOST_WORDS * len(cells) and all(len(str(word)) <= SHORT for word in words)
    return bool(cells) and (not words or few)


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
    """A setting as readable text: lists with commas, no quotes and no braces."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_setting(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_setting(inner) for inner in value)
    if isinstance(value, float):
        return f"{value:g}"
    return _number(value) if isinstance(value, bool) or value is None else str(value)
