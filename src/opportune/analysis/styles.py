"""Colour and dash of every line: each policy its own, the same in every figure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Okabe and Ito's palette, which colour-blind readers can tell apart, four of Paul Tol's, and a brown.
BLUE, VERMILION, GREEN, ORANGE, SKY, PINK = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
BLACK, GREY, INDIGO, WINE, OLIVE = "#000000", "#999999", "#332288", "#882255", "#999933"
PURPLE, BROWN = "#AA4499", "#7F4F24"

COLOURS = (WINE, INDIGO, OLIVE, BLACK, PINK, ORANGE, SKY, GREY, PURPLE, BROWN, GREEN, VERMILION, BLUE)
"""All of them, those of the paper's policies last."""

Dash = str | tuple[int, tuple[int, ...]]
DASHES: tuple[Dash, ...] = (
    "-", "--", "-.", ":", (0, (3, 1)), (0, (5, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)),
)  # fmt: skip


class Style(NamedTuple):
    """How a line is drawn; dashes tell lines apart in black and white."""

    color: str
    linestyle: Dash


POLICIES = {
    "PD2": Style(BLUE, "-"),
    "PD1": Style(VERMILION, "--"),
    "naive": Style(GREEN, "-."),
    "PD2 range": Style(SKY, (0, (3, 1))),
    "PD1 range": Style(ORANGE, (0, (5, 1, 1, 1))),
    "never send": Style(PINK, ":"),
    "coin flip": Style(GREY, (0, (1, 1))),
    "always send": Style(BLACK, (0, (8, 2))),
    "informed sender": Style(INDIGO, (0, (3, 1, 1, 1, 1, 1))),
    "PACE": Style(WINE, (0, (12, 1))),
    "PACE, kappa 0.5": Style(PURPLE, (0, (2, 2))),
    "PACE, guarded": Style(OLIVE, (0, (6, 2, 1, 2))),
    "PD2 + rotate": Style(BROWN, (0, (4, 2))),
}
"""The policies of the experiments, by name."""


def assign(labels: Iterable[str]) -> dict[str, Style]:
    """A style for each line of a figure, no two alike.

    Policies of the experiments have their own. Of labels that begin with such a name (`PD2 B=10`, `PD2 B=20`)
    the first takes its style if no other line has it; all others take what is left, in order.
    """
    names = list(dict.fromkeys(labels))
    given = {label: POLICIES[label] for label in names if label in POLICIES}
    for label in names:
        own = POLICIES.get(label.split(" ")[0])
        if label not in given and own is not None and own not in given.values():
            given[label] = own
    left = _others()
    return {label: given.get(label) or next(left) for label in names}


def _others() -> Iterator[Style]:
    """What no policy of the experiments has: colours in turn, with another dash in each round."""
    for turn in range(len(DASHES)):
        for i, colour in enumerate(COLOURS):
            style = Style(colour, DASHES[(i + turn) % len(DASHES)])
            if style not in POLICIES.values():
                yield style
