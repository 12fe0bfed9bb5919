"""The whole analysis of a trial: from an export to tables, findings, and the opening sentences of the report."""

import secrets
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from opportune.errors import DataError, InputError
from opportune.inference.estimates import Estimates
from opportune.inference.questions import ARM, ELIGIBLE, NUDGE
from opportune.study.serving import live
from opportune.trial import fidelity, flow
from opportune.trial.consort import consort_ai
from opportune.trial.effects import PRIMARY, Finding, effects_table, find_effects, r_script, rows_for_r
from opportune.trial.export import Export
from opportune.trial.policies import always, other_policies


@dataclass(frozen=True)
class Analysis:
    """Everything that the report shows.

    Args:
        export: the record; letters replace the arms' names if it is blinded.
        tables: every table by its name.
        findings: the analyses, the primary one first.
        policies: the rewards of other policies; None if they cannot be estimated.
        why: why they cannot.
        notes: warnings that a reader must know.
        rows: the rows that the R script reads.
        script: the R script.
        blinded: whether letters replace the arms' names.

    """

    export: Export
    tables: dict[str, pd.DataFrame]
    findings: list[Finding]
    policies: Estimates | None
    why: str
    notes: tuple[str, ...]
    rows: pd.DataFrame
    script: str
    blinded: bool

    @property
    def primary(self) -> Finding:
        """The primary analysis."""
        return self.findings[0]


def analyse(export: Export, *, blinded: bool = False, plan: Path | None = None, policies: bool = True) -> Analysis:
    """Analyse a trial.

    Args:
        export: the record.
        blinded: leave arms unnamed, and leave out what would reveal them.
        plan: a table that `opportune plan` wrote, NAME-plan-power.csv, to compare with the results.
        policies: estimate the rewards of other policies and budgets.

    """
    export = hide_arms(export) if blinded else export
    planned = None if plan is None else _read_plan(plan)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        findings = find_effects(export)
        value, why = _policies(export) if policies else (None, "they were not requested")
        actions = always(export) if policies else pd.DataFrame()
    warned = [_with_analyses(str(one.message), findings) for one in caught if issubclass(one.category, UserWarning)]
    file = f"{export.name}-analysis-rows.csv"
    tables = {
        "flow": flow.flow(export, blinded=blinded),
        "reasons": flow.reasons(export),
        "fidelity": fidelity.fidelity(export),
        "calibration": fidelity.calibration(export),
        "budget": fidelity.budget(export),
        "missing": flow.missing(export, blinded=blinded),
        "effects": effects_table(findings),
        "course": fidelity.course(export),
        "consort-ai": consort_ai(export),
    }
    if value is not None:
        tables["policies"] = value.table().reset_index(names="policy")
    if len(actions):
        tables["always"] = actions
    if planned is not None:
        tables["planned"] = against_plan(export, findings[0], planned)
    notes = tuple(dict.fromkeys([*export.notes, *warned, *learned_together(export)]))
    return Analysis(
        export, tables, findings, value, why, notes, rows_for_r(export, findings), r_script(findings, file), blinded
    )


def hide_arms(export: Export) -> Export:
    """The record with arms named A, B and so on, in a random order."""
    order = list(export.arms)
    secrets.SystemRandom().shuffle(order)
    letters = {arm: f"arm {chr(65 + i)}" for i, arm in enumerate(order)}
    frames = [frame.assign(**{ARM: frame[ARM].map(letters)}) if ARM in frame else frame
              for frame in (export.decisions, export.participants)]  # fmt: skip
    return replace(export, decisions=frames[0], participants=frames[1], blinded=True)


def open_effects(export: Export) -> list[Finding]:
    """The analyses for an unblinded board: the primary one, and the comparison of arms if there are any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return [finding for finding in find_effects(export) if finding.kind == PRIMARY or finding.key == "arms"]


def _policies(export: Export) -> tuple[Estimates | None, str]:
    try:
        return other_policies(export), ""
    except InputError as error:
        return None, str(error)


def _with_analyses(text: str, findings: Sequence[Finding]) -> str:
    """A warning as a sentence, with the analyses that it concerns."""
    about = [finding.title for finding in findings if finding.estimates is not None and text in finding.estimates.notes]
    return f"{text[:1].upper()}{text[1:]}" + (f" ({'; '.join(about)})." if about else ".")


def learned_together(export: Export) -> list[str]:
    """Why there is no adaptive sandwich beside the estimates, if participants learned from each other."""
    try:
        together = export.study is not None and any(one.together for one in live(export.study).policies.values())
    except InputError:
        together = False
    if not together:
        return []
    return [
        "Participants shared a model, a budget or staff. Estimates use a fixed reference probability, with which their "
        "intervals held in simulations; the adaptive sandwich is not reported beside them, as the probabilities of a "
        "nudge jump with what was learned instead of changing smoothly."
    ]


def _read_plan(file: Path) -> pd.DataFrame:
    if not file.is_file():
        raise InputError(
            f"--plan is {file}, which does not exist; expected NAME-plan-power.csv, as opportune plan writes"
        )
    try:
        found = pd.read_csv(file)
    except ValueError:  # pandas' own errors, and bytes that are not UTF-8
        raise DataError(
            f"--plan is {file}, which is not a CSV table; expected NAME-plan-power.csv, as opportune plan writes it"
        ) from None
    lacking = {"question", "design", "participants", "budget", "power", "estimate", "se", "eligible"} - set(
        found.columns
    )
    if lacking:
        raise DataError(
            f"{file} has no column {min(lacking)}; expected NAME-plan-power.csv, as opportune plan writes it"
        )
    return found


def against_plan(export: Export, primary: Finding, planned: pd.DataFrame) -> pd.DataFrame:
    """The plan for the primary analysis, beside its results.

    Of the plan's designs, the one with the most power at the nearest budget and number of participants is shown.
    """
    here = planned[(planned["question"] == primary.question.name) & planned["power"].notna()]
    if here.empty:
        raise InputError(
            f"the plan has no power for the {primary.question.name}; expected the plan of this study, made with the "
            "same [analysis]"
        )
    n = export.participants.shape[0]
    budget = fidelity.planned_budget(export)
    if budget is not None:
        nearest = here["budget"].iloc[int((here["budget"] - budget).abs().to_numpy().argmin())]
        here = here[here["budget"] == nearest]
    most = here.groupby("design")["power"].max().idxmax()
    here = here[here["design"] == most]
    best = here.loc[(here["participants"] - n).abs().sort_values(kind="stable").index[0]]
    found = primary.estimates
    estimate, se = (np.nan, np.nan) if found is None else (found.estimate[-1], found.se[-1])
    return pd.DataFrame(
        [
            ("participants", float(best["participants"]), float(n)),
            (
                "share of decision points that are eligible",
                float(best["eligible"]),
                float(export.decisions["eligible"].mean()),
            ),
            ("effect", float(best["estimate"]), estimate),
            ("standard error", float(best["se"]), se),
            ("power", float(best["power"]), np.nan),
        ],
        columns=["measure", "planned", "observed"],
    )


def sentences(found: Analysis) -> list[str]:
    """The sentences that a reader should see first."""
    primary, export, how = found.primary, found.export, found.export.registered
    lines = []
    if primary.estimates is None:
        lines.append(f"The primary analysis ({how}) gives no estimate: {primary.why}.")
    else:
        lines += [_in_words(primary, j, unit_of(export)) for j in range(primary.estimates.effects)]
        if 1 < primary.estimates.effects <= primary.estimates.df:
            lines.append(f"A joint test that all {primary.estimates.effects} are 0 gives {primary.estimates.joint}.")
        lines.append(f"This is the primary analysis, {how}: {primary.estimates.estimand}.")
    if (export.decisions[ELIGIBLE] == 1).any():
        lines.append(
            "The record identifies effects at candidate moments, with other nudges following the protocol, averaged "
            "over eligible points. It does not identify the effect of a nudge at other moments, after the budget is "
            "spent or while a participant rests, nor what would happen without any programme: that needs a control arm."
        )
    rest = [finding for finding in found.findings[1:] if finding.estimates is not None]
    clear = found.tables["effects"]
    clear = clear[(clear["kind"] != PRIMARY) & (clear["holm p"] < 0.05)]
    if not rest:
        return [*lines, "No secondary analysis gives an answer."]
    some = f"{len(clear)} of their coefficients {'differs' if len(clear) == 1 else 'differ'} from 0."
    return [
        *lines,
        f"There are {len(rest)} secondary analyses; after adjusting for their number, "
        + (some if len(clear) else "none of their coefficients differs from 0."),
    ]


def unit_of(export: Export) -> str:
    """The unit of rewards."""
    return "points" if export.study is None else export.study.settings.reward.unit or "points"


def _in_words(finding: Finding, j: int, unit: str) -> str:
    found = finding.estimates
    assert found is not None
    at = len(found.names) - found.effects + j
    low, high = found.interval[at]
    value = found.estimate[at]
    several = found.effects > 1
    p = found.holm_p[at] if several else found.p[at]
    verdict = "More than chance would explain." if p < 0.05 else "Chance alone could explain this."
    which = f", {found.names[at]}" if several else ""
    if several and found.names[at] == NUDGE:
        which = f", where {finding.question.moderators.strip()} is 0 or at the first level"
    return (
        f"{finding.title}{which}: {_short(value)} {unit} (95% interval {_short(low)} to {_short(high)}; "
        f"p {_p(p)}{', adjusted by Holm' if several else ''}). {verdict}"
    )


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _p(p: float) -> str:
    return "< 0.001" if p < 1e-3 else f"= {p:.3f}"


def failures(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """The analyses without an answer, each with the reason."""
    return [(finding.title, finding.why) for finding in findings if finding.estimates is None]
