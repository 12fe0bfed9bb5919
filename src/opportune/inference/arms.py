"""Arms of a trial: participants' mean outcomes, compared between randomised arms and adjusted for the baseline.

Least squares of a participant's mean on controls known before randomisation and on indicators of the arms (ANCOVA),
with the sandwich estimator, in which each participant is one row.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from opportune import checks
from opportune.errors import InputError
from opportune.inference.design import design
from opportune.inference.estimates import Estimates, estimates
from opportune.inference.least_squares import add_up, solve
from opportune.inference.record import Record, check_participants, column, constant_within, read


def arms(
    frame: pd.DataFrame,
    *,
    outcome: str = "y",
    arm: str = "arm",
    participant: str = "id",
    controls: str = "1",
    available: str | None = None,
    imputed: str | None = None,
    reference: str | None = None,
) -> Estimates:
    """The difference between arms in participants' mean outcome.

    Args:
        frame: one row for each decision point, or one for each participant.
        outcome: the column with Y; a participant's outcome is the mean of those that are known.
        arm: the column with the arm to which the participant was randomised, whatever they then received.
        participant: the column that identifies the participant.
        controls: a formula of what was known before randomisation, such as "baseline"; constant for a participant.
        available: the column that is 1 in rows that count; by default all do.
        imputed: the column that is 1 if the outcome was filled in; such rows are left out.
        reference: the arm with which the others are compared; by default the first in order.

    """
    record = read(frame, outcome, participant, available=available, imputed=imputed)
    rows = record.rows
    if column(rows, arm).isna().any():
        raise InputError(f"{arm} is empty in some rows; expected the arm of every participant")
    constant_within(rows, record.who, [arm], "it is the arm to which the participant was randomised")
    names = sorted(rows[arm].unique(), key=str)
    if len(names) < 2:
        raise InputError(f"{arm} holds only {checks.brief(names[0])}; expected at least two arms")
    texts = [str(name) for name in names]
    first = texts[0] if reference is None else checks.choice("reference", reference, texts)
    others = [name for name in texts if name != first]
    h, h_names = design("controls", controls, rows, outcome=outcome)
    if "Intercept" not in h_names:
        raise InputError(f"controls {controls!r} leaves out the intercept; expected it among them")
    for j, name in enumerate(h_names):
        constant_within(pd.DataFrame({name: h[:, j]}), record.who, [name], "it was known before randomisation")
    one = np.flatnonzero(~pd.Series(record.who).duplicated())  # in order of `who`
    mean = pd.Series(record.y).groupby(record.who).mean().to_numpy()
    member = np.column_stack([rows[arm].astype(str).to_numpy()[one] == name for name in others]).astype(np.float64)
    x = np.column_stack([h[one], member])
    check_participants(record.n, x.shape[1])
    beta, found = solve(add_up(x, mean, np.ones(record.n), np.arange(record.n), record.n), record.people)
    return estimates(
        _with_lost(record, frame, participant),
        beta,
        found,
        method=f"ANCOVA: {outcome} by {arm}, against {first}",
        estimand=(
            f"how much higher participants' mean {outcome} is in this arm than in {first}, as randomised"
            + ("" if h.shape[1] == 1 else f", adjusted for {controls.strip()}")
        ),
        names=(*h_names, *(f"{arm}[{name}]" for name in others)),
        effects=len(others),
        least_probability=float("nan"),
        holm=len(others) > 1,
    )


def _with_lost(record: Record, frame: pd.DataFrame, participant: str) -> Record:
    """The record with a note of randomised participants without an outcome."""
    lost = frame[participant].nunique() - record.n
    if not lost:
        return record
    note = f"{lost:,} of {lost + record.n:,} participants have no outcome and are left out"
    checks.warn(note)
    return replace(record, notes=(*record.notes, note))
