"""The report: one self-contained HTML page from the results that experiments left in a directory."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opportune.errors import DataError
from opportune.experiments import NAMES
from opportune.experiments.claims import Claim, Verdict
from opportune.experiments.record import FigureFiles, Record, command, read_record
from opportune.report.html import Image, read_picture, render, write_page

OPENING = "pace"
"""The experiment whose first figure opens the page, if present."""
FIRST = (OPENING, "regret", "oralytics")
"""Experiments whose findings come first."""

Place = tuple[str, int]
"""An experiment and the number of one of its figures."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The numbers of claims that held, did not hold, and were not decided."""

    held: int
    not_held: int
    undecided: int

    @property
    def total(self) -> int:
        """The number of claims."""
        return self.held + self.not_held + self.undecided


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Results with the same seed, size, machine and versions, and the command that repeats them."""

    records: list[Record]
    command: str


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The figure that the page opens with."""

    place: Place
    figure: FigureFiles
    picture: Image


def write_report(directory: Path) -> Path:
    """Write `report.html` from every result in a directory; it appears only once it is complete.

    JSON files that no experiment wrote (no `experiment` key) are ignored. A result that cannot be read, or whose
    figure is missing, raises a `DataError` that names the file.
    """
    return write_page(_render(directory, _read_results(directory)), directory / "report.html")


# Reading


def _read_results(directory: Path) -> list[Record]:
    if not directory.is_dir():
        raise DataError(f"{directory} is not a directory; run `opportune reproduce` to make results")
    files: dict[str, Path] = {}
    results: list[Record] = []
    for file in sorted(directory.glob("*.json")):
        result = read_record(file)
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


def _place(experiment: str) -> tuple[int, str]:
    """The sorting key of an experiment: the paper's in their order, then all others by name."""
    return (NAMES.index(experiment) if experiment in NAMES else len(NAMES), experiment)


# Counting and grouping


def _tally(claims: Iterable[Claim]) -> Tally:
    verdicts = Counter(claim.verdict for claim in claims)
    return Tally(
        held=verdicts[Verdict.HELD], not_held=verdicts[Verdict.NOT_HELD], undecided=verdicts[Verdict.NOT_DECIDED]
    )


def _origins(results: Sequence[Record]) -> list[Origin]:
    """Results grouped by origin, whether one command made them or several."""
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


def _importance(experiment: str) -> int:
    """The rank of an experiment's findings: the main experiments first, the rest in the reader's order."""
    return FIRST.index(experiment) if experiment in FIRST else len(FIRST)


def _opening(results: Sequence[Record], pictures: Mapping[Place, Image]) -> Opening | None:
    """The first figure of the page: that of our own rule, else of the first experiment with findings."""
    places = [
        ((result.experiment, at), figure)
        for result in results
        if result.found
        for at, figure in enumerate(result.figures)
    ]
    chosen = next(((place, figure) for place, figure in places if figure.name == OPENING), next(iter(places), None))
    if chosen is None:
        return None
    place, figure = chosen
    return Opening(place=place, figure=figure, picture=pictures[place])


def _render(directory: Path, results: list[Record]) -> str:
    pictures = {
        (result.experiment, at): read_picture(directory, figure.svg, figure.png, checksums=result.files)
        for result in results
        for at, figure in enumerate(result.figures)
    }
    return render(
        "report.html.jinja",
        results=results,
        found=sorted((result for result in results if result.found), key=lambda result: _importance(result.experiment)),
        main_findings=len(FIRST),
        opening=_opening(results, pictures),
        pictures=pictures,
        tallies={result.experiment: _tally(result.claims) for result in results},
        total=_tally(claim for result in results for claim in result.claims),
        by_verdict={
            verdict: [(result, claim) for result in results for claim in result.claims if claim.verdict is verdict]
            for verdict in Verdict
        },
        seconds=sum(result.seconds for result in results),
        first=min(result.finished for result in results),
        last=max(result.finished for result in results),
        origins=_origins(results),
    )
