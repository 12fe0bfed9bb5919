"""The colour and dashes of every line: each policy has its own, the same in every figure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Okabe and Ito's palette, which is safe for colour-blind readers, seven colours of Paul Tol's, a brown and a slate.
BLUE, VERMILION, GREEN, ORANGE, SKY, PINK = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
BLACK, GREY, INDIGO, WINE, OLIVE = "#000000", "#999999", "#332288", "#882255", "#999933"
PURPLE, BROWN, TEAL, ROSE, SAND, SLATE = "#AA4499", "#7F4F24", "#44AA99", "#CC6677", "#B8A038", "#4A5560"

COLOURS = (WINE, INDIGO, OLIVE, BLACK, PINK, ORANGE, SKY, GREY, PURPLE, BROWN, TEAL, ROSE, SAND, SLATE, GREEN,
           VERMILION, BLUE)  # fmt: skip
"""All colours, those of the paper's policies last."""

Dash = str | tuple[float, tuple[float, ...]]
DASHES: tuple[Dash, ...] = (
    "-", "--", "-.", ":", (0, (3, 1)), (0, (5, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)),
)  # fmt: skip


class Style(NamedTuple):
    """The style of a line; dashes distinguish lines in black and white."""

    color: str
    linestyle: Dash


POLICIES = {
    "PD2": Style(BLUE, "-"),
    "PD1": Style(VERMILION, (0, (5, 2))),
    "naive": Style(GREEN, (0, (6, 2, 1.5, 2))),
    "PD2 range": Style(SKY, (0, (10, 2))),
    "PD1 range": Style(ORANGE, (0, (5, 1.5, 1, 1.5, 1, 1.5))),
    "never send": Style(PINK, (0, (1, 1))),
    "coin flip": Style(GREY, (0, (1, 3))),
    "always send": Style(BLACK, (0, (10, 2, 3, 2))),
    "informed sender": Style(INDIGO, (0, (3, 1.2, 3, 4))),
    "PACE": Style(WINE, (0, (18, 1.5))),
    "PACE, kappa 0.5": Style(PURPLE, (0, (2.5, 1.5))),
    "PACE, guarded": Style(OLIVE, (0, (8, 2, 1, 2, 1, 2, 1, 2))),
    "PD2 + rotate": Style(BROWN, (0, (4, 1.5, 4, 1.5, 1, 1.5))),
    "PD2 Thompson 1": Style(TEAL, (0, (7, 3))),
    "PD2 Thompson 3": Style(ROSE, (0, (3, 3))),
    "PD2 Thompson 10": Style(SAND, (0, (9, 2, 1.5, 2))),
    "everything revealed": Style(SLATE, ":"),
}
"""The policies of the experiments, by name; PD1 and PD2 are those with scale adaptive."""


def assign(labels: Iterable[str]) -> dict[str, Style]:
    """A style for each line of a figure, all different.

    Policies of the experiments have their own. The first label that begins with such a name (`PD2 B=10`, `PD2 B=20`)
    takes its style unless another line has it; all others take the remaining styles, in order.
    """
    names = list(dict.fromkeys(labels))
    given = {label: POLICIES[label] for label in names if label in POLICIES}  # exact names before prefixes
    for label in names:
        own = POLICIES.get(label.split(" ")[0])
        if label not in given and own is not None and own not in given.values():
            given[label] = own
    left = _others({style.color for style in given.values()})
    return {label: given.get(label) or next(left) for label in names}


def _others(taken: set[str]) -> Iterator[Style]:
    """Styles that no policy of the experiments has: unused colours first, with another dash pattern in each round."""
    everything = [
        Style(colour, DASHES[(i + turn) % len(DASHES)])
        for turn in range(len(DASHES))
        for i, colour in enumerate(COLOURS)
    ]
    free = [style for style in everything if style not in POLICIES.values()]
    first = [style for style in free[: len(COLOURS)] if style.color not in taken]
    yield from first
    yield from (style for style in free if style not in first)
