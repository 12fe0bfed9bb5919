"""Charts made on the server: SVG with a title and a description, coloured by the style sheet."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

WIDTH, HEIGHT = 540.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 14.0, 14.0, 40.0
MOST_TICKS = 6


@dataclass
class Chart:
    """A chart with numeric axes; parts are drawn in the order in which they are added."""

    title: str
    description: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_label: str
    y_label: str
    x_ticks: Sequence[tuple[float, str]] = ()
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    """The room for labels on the left."""
    _parts: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        """The horizontal position of a value."""
        low, high = self.x_range
        return self.left + (self.width - self.left - RIGHT) * (value - low) / ((high - low) or 1.0)

    def y(self, value: float) -> float:
        """The vertical position of a value."""
        low, high = self.y_range
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * (value - low) / ((high - low) or 1.0)

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Add a line through points."""
        if points:
            path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
            self._parts.append(f'<polyline class="{kind}" points="{path}"/>')

    def band(self, points: Sequence[tuple[float, float, float]], kind: str) -> None:
        """Add an area between two lines."""
        if points:
            there = [f"{self.x(x):.1f},{self.y(high):.1f}" for x, _, high in points]
            back = [f"{self.x(x):.1f},{self.y(low):.1f}" for x, low, _ in reversed(points)]
            self._parts.append(f'<polygon class="{kind}" points="{" ".join(there + back)}"/>')

    def bars(self, points: Sequence[tuple[float, float]], kind: str, wide: float) -> None:
        """Add bars from zero; `wide` is in units of the x axis."""
        for x, y in points:
            left, right, top = self.x(x - wide / 2), self.x(x + wide / 2), self.y(y)
            height = max(0.0, self.y(0.0) - top)
            self._parts.append(
                f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{height:.1f}"/>'
            )

    def mark(self, x: float, y: float, kind: str, title: str, shape: str = "circle") -> None:
        """Add a mark with a tooltip."""
        left, top, said = self.x(x), self.y(y), f"<title>{escape(title)}</title>"
        if shape == "circle":
            self._parts.append(f'<circle class="{kind}" cx="{left:.1f}" cy="{top:.1f}" r="4">{said}</circle>')
        elif shape == "square":
            self._parts.append(
                f'<rect class="{kind}" x="{left - 4:.1f}" y="{top - 4:.1f}" width="8" height="8">{said}</rect>'
            )
        elif shape == "diamond":
            points = (
                f"{left:.1f},{top - 6:.1f} {left + 6:.1f},{top:.1f} {left:.1f},{top + 6:.1f} {left - 6:.1f},{top:.1f}"
            )
            self._parts.append(f'<polygon class="{kind}" points="{points}">{said}</polygon>')
        else:
            points = f"{left:.1f},{top - 6:.1f} {left + 6:.1f},{top + 5:.1f} {left - 6:.1f},{top + 5:.1f}"
            self._parts.append(f'<polygon class="{kind}" points="{points}">{said}</polygon>')

    def text(self, x: float, y: float, words: str, anchor: str = "end") -> None:
        """Add a label at a position."""
        self._parts.append(
            f'<text x="{self.x(x) - 8:.1f}" y="{self.y(y) + 4:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def figure(self, name: str, *, y_axis: bool = True) -> "Figure":
        """The finished chart with its title and description."""
        return Figure(name, self.title, self.description, self._svg(name, y_axis))

    def _svg(self, name: str, y_axis: bool) -> Markup:
        bottom, right = self.height - BOTTOM, self.width - RIGHT
        axes = [f'<line class="axis" x1="{self.left}" y1="{bottom}" x2="{right}" y2="{bottom}"/>']
        for value, words in self.x_ticks or [(v, f"{v:g}") for v in ticks(*self.x_range)]:
            at = self.x(value)
            axes.append(f'<line class="axis" x1="{at:.1f}" y1="{bottom}" x2="{at:.1f}" y2="{bottom + 4}"/>')
            axes.append(f'<text x="{at:.1f}" y="{bottom + 17}" text-anchor="middle">{escape(words)}</text>')
        if y_axis:
            for value in ticks(*self.y_range):
                at = self.y(value)
                axes.append(f'<line class="grid" x1="{self.left}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}"/>')
                axes.append(f'<text x="{self.left - 6}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>')
            axes.append(
                f'<text transform="translate(12 {(TOP + bottom) / 2:.1f}) rotate(-90)" text-anchor="middle">'
                f"{escape(self.y_label)}</text>"
            )
        middle = (self.left + right) / 2
        axes.append(f'<text x="{middle:.1f}" y="{self.height - 6}" text-anchor="middle">{escape(self.x_label)}</text>')
        return Markup(
            f'<svg class="chart" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-labelledby="{name}-title" aria-describedby="{name}-text"><title id="{name}-title">'
            f"{escape(self.title)}</title>{''.join(axes)}{''.join(self._parts)}</svg>"
        )


@dataclass(frozen=True)
class Figure:
    """A chart as SVG, with its title and a description of what it shows."""

    name: str
    title: str
    description: str
    svg: Markup


def ticks(low: float, high: float) -> list[float]:
    """Round numbers for the ticks between two values."""
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    rough = span / MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def room(values: Sequence[float], *, least: float = 1.0) -> tuple[float, float]:
    """A range that contains zero and all values, with a margin."""
    low, high = min([0.0, *values]), max([least, *values])
    return (low * 1.05, high * 1.05)


def around(values: Sequence[float]) -> tuple[float, float]:
    """A range that contains all values, with a margin."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    span = (high - low) or 1.0
    return (low - 0.08 * span, high + 0.08 * span)
