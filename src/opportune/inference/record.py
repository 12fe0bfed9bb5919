"""Reading a record: which rows count, whose they are, and checks before anything is estimated."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from opportune import checks
from opportune.errors import InputError
from opportune.inference.sandwich import Floats, Ints

MOST_INCOMPLETE = 0.1
"""If more than this share of outcomes is missing, a warning says so."""
MOST_SURPRISE = 4.0
"""The largest allowed difference between draws and their probabilities, in standard deviations."""
SPARE_PARTICIPANTS = 5
"""The number of participants must exceed the number of coefficients by more than this."""


@dataclass(frozen=True)
class Record:
    """The rows that count.

    Args:
        rows: eligible rows whose outcome is known (or all eligible rows, if requested).
        y: their outcomes.
        who: the number of each row's participant, from 0.
        people: the participants' names, in order.
        notes: what was left out, and why.

    """

    rows: pd.DataFrame
    y: Floats
    who: Ints
    people: tuple[Any, ...]
    notes: tuple[str, ...]

    @property
    def n(self) -> int:
        """The number of participants."""
        return len(self.people)


def read(
    frame: Any,
    outcome: str,
    participant: str,
    *,
    available: str | None = None,
    imputed: str | None = None,
    lag: int = 1,
    time: str | None = None,
    keep_missing: bool = False,
) -> Record:
    """The eligible rows whose outcome is known; warns if many outcomes are missing or some were imputed.

    Args:
        frame: one row for each decision point, eligible or not.
        outcome: the column with Y.
        participant: the column that identifies the participant.
        available: the column that is 1 (or True) in eligible rows; by default all rows are eligible.
        imputed: the column that is 1 if the outcome was filled in; such outcomes count as missing.
        lag: the outcome is the mean of Y over this many decision points, from this one on.
        time: the column that numbers a participant's decision points; a lag above 1 needs it.
        keep_missing: keep eligible rows whose outcome is missing, as NaN.

    """
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"frame is {checks.brief(frame)}; expected a pandas DataFrame, one row per decision point")
    twice = frame.columns[frame.columns.astype(str).duplicated()]
    if len(twice):
        raise InputError(f"frame contains several columns named {twice[0]}; expected each name once")
    frame = frame.reset_index(drop=True)
    y = numbers(frame, outcome, missing=True)
    notes: list[str] = []
    if column(frame, participant).isna().any():
        raise InputError(f"{participant} is empty in some rows; expected the participant of each row")
    lag = checks.whole("lag", lag, least=1, most=checks.MOST_STEPS)
    steps = None if time is None else _steps(frame, participant, time, whole=lag > 1)
    if imputed is not None:
        filled = zeros_and_ones(frame, imputed) == 1.0
        if filled.any():
            _warn(notes, f"{int(filled.sum()):,} imputed outcomes are left out")
        y = np.where(filled, np.nan, y)
    inside = np.ones(len(frame), dtype=np.bool_)
    if lag > 1:
        y, inside = _windows(frame, y, participant, lag, steps)
    eligible = np.ones(len(frame), dtype=np.bool_) if available is None else zeros_and_ones(frame, available) == 1.0
    asked, known = eligible & inside, np.isfinite(y)
    if not (asked & known).any():
        raise InputError("no eligible row has an outcome; expected some")
    if np.ptp(y[asked & known]) == 0.0:
        raise InputError(f"{outcome} is {y[asked & known][0]:g} in every eligible row; expected an outcome that varies")
    lost = int((asked & ~known).sum())
    if lost:
        what = "outcomes" if lag == 1 else f"windows of {lag} decision points"
        note = f"{lost:,} of {int(asked.sum()):,} {what} are incomplete and left out"
        if lost > MOST_INCOMPLETE * asked.sum():
            _warn(notes, f"{note}; the estimate holds if they are missing regardless of treatment and outcome")
        else:
            notes.append(note)
    used = asked if keep_missing else asked & known
    rows = frame[used].reset_index(drop=True)
    who, people = pd.factorize(rows[participant])
    return Record(rows, y[used], np.asarray(who, dtype=np.int64), tuple(people), tuple(notes))


def _steps(frame: pd.DataFrame, participant: str, time: str, *, whole: bool) -> Floats:
    """The number of each decision point; refused if a participant has one twice."""
    steps = numbers(frame, time)
    if whole and (steps != np.floor(steps)).any():
        raise InputError(f"{time} contains numbers that are not whole; expected the number of each decision point")
    twice = pd.DataFrame({"who": frame[participant], "step": steps}).duplicated()
    if twice.any():
        first = int(np.argmax(twice))
        raise InputError(
            f"participant {frame[participant].iloc[first]} has decision point {steps[first]:g} twice; "
            "expected each once"
        )
    return steps


def _windows(
    frame: pd.DataFrame, y: Floats, participant: str, lag: int, steps: Floats | None
) -> tuple[Floats, NDArray[np.bool_]]:
    """Means over t, ..., t + lag - 1, NaN if one is missing; and whether the participant's rows reach t + lag - 1."""
    if steps is None:
        raise InputError(f"lag = {lag} needs time=..., the column that numbers each participant's decision points")
    who, _ = pd.factorize(frame[participant])
    span = int(steps.max() - steps.min()) + lag + 1  # windows do not reach the next participant
    place = pd.Index(who * span + (steps - steps.min()).astype(np.int64))
    last = pd.Series(steps).groupby(who).transform("max").to_numpy()
    window = np.zeros(len(frame))
    for ahead in range(lag):
        at = place.get_indexer(place + ahead)
        window += np.where(at >= 0, y[at], np.nan)
    return window / lag, steps + lag - 1 <= last


def column(frame: pd.DataFrame, name: Any) -> pd.Series:
    """A column of the frame; the error for an unknown name suggests a similar one."""
    wanted = checks.choice("column", name, map(str, frame.columns))
    return frame.iloc[:, [str(one) for one in frame.columns].index(wanted)]


def numbers(frame: pd.DataFrame, name: str, *, missing: bool = False) -> Floats:
    """A column of numbers; with `missing`, some may be missing."""
    values = column(frame, name)
    if values.dtype.kind in "mM":
        raise InputError(f"column {name} holds dates or durations; expected numbers only")
    try:
        found: Floats = values.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise InputError(f"column {name} holds something other than numbers; expected numbers only") from None
    bad = np.isinf(found) if missing else ~np.isfinite(found)
    if bad.any():
        raise InputError(f"column {name} has {found[bad][0]} in {int(bad.sum()):,} rows; expected finite numbers")
    return found


def zeros_and_ones(frame: pd.DataFrame, name: str) -> Floats:
    """A column of zeros and ones, or of False and True."""
    found = numbers(frame, name)
    if not np.isin(found, (0.0, 1.0)).all():
        wrong = found[~np.isin(found, (0.0, 1.0))][0]
        raise InputError(f"column {name} holds {wrong:g}; expected 0 or 1 in every row")
    return found


def per_row(name: str, given: str | float, rows: pd.DataFrame) -> Floats:
    """A probability for each row: from a column, or one number for all."""
    if isinstance(given, str):
        return numbers(rows, given)
    return np.full(len(rows), checks.real(name, given, above=0.0, below=1.0))


def drawn(rows: pd.DataFrame, treatment: str, probability: str | float, least: float) -> tuple[Floats, Floats]:
    """A and p of each row; refused if A cannot have been drawn with these probabilities."""
    a, p = zeros_and_ones(rows, treatment), per_row("probability", probability, rows)
    check_probabilities(p, least, of=treatment)
    check_frequencies(a, p, of=treatment)
    return a, p


def check_probabilities(p: Floats, least: float, *, of: str = "treatment", several: bool = False) -> None:
    """Refuse probabilities outside the protocol's bounds: too small or too large to count as randomised."""
    least = checks.real("least_probability", least, above=0.0, most=0.5)
    low, high = least - 1e-9, 1.0 if several else 1.0 - least + 1e-9
    bad = (p < low) | (p > high)
    if bad.any():
        expected = f"{least:g} or more" if several else f"{least:g} to {1.0 - least:g}"
        raise InputError(
            f"{int(bad.sum()):,} of {bad.size:,} eligible rows have a probability of {of} outside the protocol's "
            f"bounds, such as {p[bad][0]:g}; expected {expected}: a row whose treatment was almost certain was not "
            "randomised, and counts as ineligible"
        )


def check_frequencies(done: Floats, p: Floats, *, of: str = "treatment") -> None:
    """Refuse a record in which something happened far more or less often than its probabilities say."""
    surprise = float((done - p).sum() / np.sqrt((p * (1.0 - p)).sum()))
    if abs(surprise) > MOST_SURPRISE:
        raise InputError(
            f"{of} happened in {int(done.sum()):,} of {done.size:,} eligible rows, where its recorded probabilities "
            f"imply {p.sum():,.0f} ({abs(surprise):.1f} standard deviations away); expected the probabilities with "
            "which it was drawn: look for a wrong column, or rows changed after the draw"
        )


def check_participants(n: int, k: int) -> None:
    """Refuse too few participants for this many coefficients."""
    if n <= k + SPARE_PARTICIPANTS:
        raise InputError(
            f"{n} participants are too few for {k} coefficients; expected at least {k + SPARE_PARTICIPANTS + 1}: "
            "leave out controls or moderators, or wait for more participants"
        )


def constant_within(rows: pd.DataFrame, who: Ints, names: Iterable[str], why: str) -> None:
    """Refuse columns that change within a participant."""
    for name in names:
        if (rows[name].groupby(who).nunique(dropna=False) > 1).any():
            raise InputError(f"column {name} changes within a participant; expected one value each: {why}")


def _warn(notes: list[str], text: str) -> None:
    """Add a note, and warn of it."""
    notes.append(text)
    checks.warn(text)
