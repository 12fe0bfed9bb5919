"""`Estimates`, the result of every estimator: intervals, tests, and a table for people."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import fdtrc, stdtr, stdtrit

from opportune import checks
from opportune.errors import InputError
from opportune.inference.record import Record
from opportune.inference.sandwich import Floats, Sandwich

LEVEL = 0.95
LINE = 110


class FTest(NamedTuple):
    """A test that combinations of coefficients are all 0: F, its degrees of freedom, and the p-value."""

    statistic: float
    df: tuple[int, int]
    p: float

    def __str__(self) -> str:
        return f"F({self.df[0]}, {self.df[1]}) = {self.statistic:.4g}, p {_p_text(self.p)}"


class Combination(NamedTuple):
    """A combination of coefficients with its standard error, 95% interval and p-value."""

    estimate: float
    se: float
    interval: tuple[float, float]
    p: float


@dataclass(frozen=True, repr=False, eq=False)
class Estimates:
    """Coefficients with clustered standard errors; the last `effects` coefficients are those of the effect.

    Args:
        method: the estimator's name, for people.
        estimand: the estimand in words.
        names: of the coefficients.
        estimate: the coefficients.
        covariance: of the coefficients, corrected for few participants.
        plain_covariance: without that correction.
        df: degrees of freedom of Student's t.
        effects: the number of coefficients, at the end, that belong to the effect.
        participants: the number of participants with at least one row.
        rows: the number of rows used.
        least_probability: the smallest probability of either treatment, or of an action, in these rows.
        holm: whether the table shows p-values adjusted for several comparisons.
        notes: what was left out, and why.
        details: further numbers by name, such as an effective sample size.
        draws: simulated values, [draws, k], whose spread gives the standard errors; None without simulation.

    """

    method: str
    estimand: str
    names: tuple[str, ...]
    estimate: Floats
    covariance: Floats
    plain_covariance: Floats
    df: int
    effects: int
    participants: int
    rows: int
    least_probability: float
    holm: bool = False
    notes: tuple[str, ...] = ()
    details: dict[str, float] = field(default_factory=dict)
    draws: Floats | None = None

    @property
    def se(self) -> Floats:
        """Standard errors."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def plain_se(self) -> Floats:
        """Standard errors without the correction for few participants."""
        return np.sqrt(np.diag(self.plain_covariance))

    @property
    def interval(self) -> Floats:
        """The lower and upper ends of the 95% intervals: [k, 2]."""
        half = self.se * float(stdtrit(self.df, 0.5 + LEVEL / 2))
        return np.column_stack([self.estimate - half, self.estimate + half])

    @property
    def p(self) -> Floats:
        """Two-sided p-values."""
        return np.asarray(2.0 * stdtr(self.df, -np.abs(self.estimate / self.se)))

    @property
    def holm_p(self) -> Floats:
        """p-values of the effect's coefficients, adjusted for their number by Holm; NaN for the others."""
        adjusted = np.full(len(self.names), np.nan)
        adjusted[-self.effects :] = holm(self.p[-self.effects :])
        return adjusted

    @property
    def signs(self) -> tuple[str, ...]:
        """For each coefficient of the effect: "higher", "lower" or "unclear", at the 5% level after Holm."""
        last = slice(-self.effects, None)
        clear = self.holm_p[last] < 1.0 - LEVEL
        return tuple(
            ("higher" if b > 0.0 else "lower") if c else "unclear"
            for b, c in zip(self.estimate[last], clear, strict=True)
        )

    @property
    def joint(self) -> FTest:
        """The test that the effect's coefficients are all 0."""
        return self.test(np.eye(len(self.names))[-self.effects :])

    def test(self, contrasts: Any) -> FTest:
        """Test that r combinations of coefficients are all 0: W (df - r + 1) / (r df) ~ F(r, df - r + 1).

        Args:
            contrasts: weights, [r, k] for all coefficients or [r, effects] for those of the effect.

        """
        c = self._weights(contrasts)
        r = int(np.linalg.matrix_rank(c))
        if r < len(c):
            raise InputError(f"contrasts has {len(c)} rows of which {r} are independent; expected independent rows")
        second = self.df - r + 1
        if second < 1:
            raise InputError(f"contrasts has {r} rows, with {self.df} degrees of freedom; expected fewer rows")
        value = c @ self.estimate
        wald = float(value @ np.linalg.solve(c @ self.covariance @ c.T, value))
        statistic = wald * second / (r * self.df)
        return FTest(statistic, (r, second), float(fdtrc(r, second, statistic)))

    def combination(self, weights: Any) -> Combination:
        """A combination of coefficients, such as [1, 1] for the effect at a moderator of 1.

        Args:
            weights: one for each coefficient, or for each of the effect's coefficients.

        """
        c = self._weights([weights])[0]
        if not c.any():
            raise InputError("weights are all 0; expected at least one that is not")
        value, se = float(c @ self.estimate), float(np.sqrt(c @ self.covariance @ c))
        half = se * float(stdtrit(self.df, 0.5 + LEVEL / 2))
        return Combination(value, se, (value - half, value + half), float(2.0 * stdtr(self.df, -abs(value) / se)))

    def table(self) -> pd.DataFrame:
        """A row for each coefficient."""
        columns = {
            "estimate": self.estimate, "se": self.se, "low": self.interval[:, 0], "high": self.interval[:, 1],
            "p": self.p, "holm_p": self.holm_p,
        }  # fmt: skip
        return pd.DataFrame(columns, index=pd.Index(self.names, name="coefficient"))

    def _weights(self, given: Any) -> Floats:
        c = checks.array("contrasts", given, ("r", "k"))
        k = len(self.names)
        if c.shape[1] == self.effects:
            return np.column_stack([np.zeros((len(c), k - self.effects)), c])
        if c.shape[1] != k:
            raise InputError(f"contrasts has {c.shape[1]} columns; expected {self.effects} or {k}")
        return c

    def __repr__(self) -> str:
        return "\n".join(_lines(self))


def holm(p: Floats) -> Floats:
    """p-values adjusted for their number (Holm, 1979): in order of size, each times the number that are left."""
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted


def _lines(of: Estimates) -> list[str]:
    """The lines of the table, and below it what a reader must know to use it."""
    header = ["", "estimate", "se", "95% interval", "t", "p"] + (["Holm p"] if of.holm else [])
    first = len(of.names) - of.effects
    cells = [header]
    for i, name in enumerate(of.names):
        low, high = of.interval[i]
        digits = _digits(float(of.se[i]))
        row = [name, f"{of.estimate[i]:.{digits}f}", f"{of.se[i]:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}"]
        if i >= first:  # whether a control is 0 does not matter
            row += [f"{of.estimate[i] / of.se[i]:.2f}", _p_text(of.p[i]).removeprefix("= ")]
            row += [_p_text(of.holm_p[i]).removeprefix("= ")] if of.holm else []
        cells.append(row + [""] * (len(header) - len(row)))
    widths = [max(len(row[j]) for row in cells) for j in range(len(header))]
    lines = [of.method]
    for i, row in enumerate(cells):
        texts = [text.ljust(width) if j == 0 else text.rjust(width) for j, (text, width) in
                 enumerate(zip(row, widths, strict=True))]  # fmt: skip
        lines.append("  ".join(texts).rstrip())
        if i in {0, first} and i < len(of.names):
            lines.append("-" * (sum(widths) + 2 * (len(widths) - 1)))
    lines.append("")
    if 1 < of.effects <= of.df:
        lines.append(f"Test that all {of.effects} coefficients of the effect are 0: {of.joint}")
    least = "" if np.isnan(of.least_probability) else f", least probability {of.least_probability:.4g}"
    lines.append(f"{of.participants:,} participants, {of.rows:,} rows{least}; {_source(of)}")
    lines += _wrapped(f"Estimated: {of.estimand}")
    lines += [f"{name}: {value:.5g}" for name, value in of.details.items()]
    for note in of.notes:
        lines += _wrapped(f"Note: {note}")
    return lines


def _source(of: Estimates) -> str:
    """The distribution behind the intervals, in words."""
    t = f"t with {of.df} degrees of freedom"
    return t if of.draws is None else f"{len(of.draws):,} simulated draws, {t}"


def _digits(se: float) -> int:
    """Decimal places that show three significant digits of a standard error."""
    return int(np.clip(2 - np.floor(np.log10(se)), 0, 8)) if se > 0.0 else 4


def _p_text(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"= {p:.4f}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, LINE, subsequent_indent="  ")


def estimates(record: Record, beta: Floats, found: Sandwich, *, freedom: int | None = None, **more: Any) -> Estimates:
    """`Estimates` of these rows and coefficients; by default with n - k degrees of freedom."""
    return Estimates(
        estimate=beta,
        covariance=found.covariance,
        plain_covariance=found.plain_covariance,
        df=record.n - len(beta) if freedom is None else freedom,
        participants=record.n,
        rows=len(record.rows),
        notes=record.notes,
        **more,
    )


def effect_names(treatment: str, moderators: Sequence[str]) -> list[str]:
    """Names of the effect's coefficients: the treatment's own for the intercept, else treatment:moderator."""
    return [treatment if name == "Intercept" else f"{treatment}:{name}" for name in moderators]
