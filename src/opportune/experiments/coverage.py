"""Rehearsals of the shipped study files, analysed like real studies: do intervals contain the simulated truth?"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from opportune.analysis.plots import new_figure
from opportune.analysis.styles import BLUE
from opportune.errors import InputError
from opportune.experiments.base import Config, Experiment, Findings, Picture
from opportune.experiments.claims import Estimate, claim
from opportune.experiments.record import Cell, Table
from opportune.inference.estimates import Estimates
from opportune.inference.questions import ELIGIBLE, PARTICIPANT, Question
from opportune.inference.sandwich import Floats
from opportune.planning.pool import MOST_ROWS, in_arms, pools
from opportune.planning.power import questions
from opportune.planning.settings import PARTICIPANTS, TARGET, Settings
from opportune.policy import Policy
from opportune.revealers import Pace
from opportune.revealers.pace import LEAST
from opportune.study import live, parse_study
from opportune.study.examples import EXAMPLES, example

LOW, HIGH = 0.90, 0.99
MOST_PEOPLE = 100


def config(quick: bool) -> Config:
    """The number of rehearsals of each example, with its planned number of participants, at most 100."""
    return {"examples": list(EXAMPLES), "rehearsals": 20 if quick else 100}


def tasks(config: Config) -> list[str]:
    """One task for each example."""
    return list(config["examples"])


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """Each rehearsal's estimate, interval and standard error for each question, and the truth.

    The truth is the estimate from the participants of all rehearsals together, which is ten times as precise. A bias of
    the estimator would affect both, so this tests standard errors. Each estimator has tests with known truths.
    """
    settings = _settings(task, seed)
    n, rehearsals = settings.participants, config["rehearsals"]
    policy, budget = _policy(settings)
    people = min(n * rehearsals, MOST_ROWS // settings.horizon)
    if settings.study.settings.arms is not None and policy.revealer.randomised:
        frame = in_arms(settings, budget, people, rehearsals).frame
    else:
        frame = pools(settings, [policy], people, rehearsals)[0].frame
    found: dict[str, Floats] = {}
    for question in questions(settings, frame, budget):
        found |= _answers(question, frame, n)
    names = list(found)
    values = np.array(list(found.values())).reshape(len(names), -1, 4)
    return xr.Dataset(
        {
            "values": (("question", "rehearsal", "value"), values),
            "eligible": (("whole",), [float(frame[ELIGIBLE].mean())]),
        },
        coords={"question": names, "value": ["estimate", "low", "high", "truth"]},
        attrs={"participants": n},
    )


def _settings(task: str, seed: int) -> Settings:
    study = parse_study(example(task), source=f"{task}.toml").replace(seed=seed)
    n = min(study.settings.participants.planned or PARTICIPANTS, MOST_PEOPLE)
    return Settings(study=study, budgets=(0.0,), target=TARGET, participants=n, replicates=2, device="cpu")


def _policy(settings: Settings) -> tuple[Policy, float]:
    """The policy that the file serves and its budget; with candidates if it leaves no nudge to chance."""
    policies = list(live(settings.study).policies.values())
    own = next((policy for policy in policies if policy.revealer.spends), policies[0])
    budget = float(settings.study.settings.serve.budget or max(settings.study.settings.study.budgets, default=1.0))
    if isinstance(own.revealer, Pace) and not own.revealer.randomised:
        return settings.randomised(LEAST, budget), budget
    return own, budget


def _answers(question: Question, frame: pd.DataFrame, n: int) -> dict[str, Floats]:
    """For each coefficient of the effect: estimate, interval and truth of each rehearsal; NaN if it was refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the file makes some simulated outcomes missing
        try:
            whole = question.answer(frame)
        except InputError:
            return {}
        rows = [_row(question, part, whole) for _, part in frame.groupby(frame[PARTICIPANT] // n)]
    names = whole.names[-whole.effects :]
    of = [question.name if len(names) == 1 else f"{question.name}: {name}" for name in names]
    return dict(zip(of, np.array(rows).swapaxes(0, 1), strict=True))


def _row(question: Question, part: pd.DataFrame, whole: Estimates) -> Floats:
    """One rehearsal's answer, [coefficients, 4]."""
    last, truth = slice(-whole.effects, None), whole.estimate[-whole.effects :]
    try:
        one = question.answer(part)
    except InputError:
        return np.column_stack([np.full((whole.effects, 3), np.nan), truth])
    if one.names[last] != whole.names[last]:
        return np.column_stack([np.full((whole.effects, 3), np.nan), truth])
    return np.column_stack([one.estimate[last], one.interval[last], truth])


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """The share of intervals that contain the truth, for each example and question."""
    shares = {(task, str(name)): _share(data.sel(question=name)) for task, data in parts.items()
              for name in data["question"].values if _analysed(data.sel(question=name))}  # fmt: skip
    numbers: dict[str, Any] = {f"{task}: {name}": share for (task, name), share in shares.items()}
    estimates = [
        Estimate(label=f"{task}, {name}", mean=share, low=share, high=share, above=LOW - 1e-9, below=HIGH + 1e-9)
        for (task, name), share in shares.items()
    ]
    rows: list[list[Cell]] = [
        [task, name, int(parts[task].attrs["participants"]), _analysed(parts[task].sel(question=name)),
         float(parts[task].sel(question=name, value="truth")["values"][0]), f"{share:.0%}"]
        for (task, name), share in shares.items()
    ]  # fmt: skip
    said = claim(
        f"Intervals contain the simulated truth in {LOW:.0%} to {HIGH:.0%} of rehearsals, for every example and "
        "question.",
        "The share of intervals that contain it", estimates, digits=2,
        note="The shares are treated as exact: with 100 rehearsals chance moves them by some four points. "
        "The truth is the same estimator's answer to all rehearsals together: this tests standard errors, not bias. "
        "Rehearsals without an answer are those in which the analysis was refused, such as for too few rows.",
    )  # fmt: skip
    spread = f"{min(shares.values()):.0%} to {max(shares.values()):.0%}" if shares else "none"
    return Findings(
        found=f"The report of opportune analyse promises 95%: in {spread} of rehearsals of the shipped studies its "
        "intervals contain the truth.",
        numbers=numbers,
        claims=[said],
        pictures=[_picture(shares)],
        tables=[
            Table(
                caption="The share of 95% intervals that contain the simulated truth",
                columns=[
                    "study",
                    "analysis",
                    "participants",
                    "rehearsals with an answer",
                    "truth",
                    "intervals that contain it",
                ],
                rows=rows,
            )
        ],
    )


def _share(data: xr.Dataset) -> float:
    low, high, truth = (data["values"].sel(value=name).values for name in ("low", "high", "truth"))
    return float(((low <= truth) & (truth <= high))[np.isfinite(low)].mean())


def _analysed(data: xr.Dataset) -> int:
    """The number of rehearsals that were not refused."""
    return int(np.isfinite(data["values"].sel(value="low").values).sum())


def _picture(shares: Mapping[tuple[str, str], float]) -> Picture:
    figure, (axes,) = new_figure(width=9.6, height=0.45 * len(shares) + 1.4)
    place = np.arange(len(shares))[::-1]
    axes.axvspan(100 * LOW, 100 * HIGH, color="0.92")
    axes.axvline(95.0, color="0.4", linewidth=1, linestyle=":")
    axes.plot([100 * share for share in shares.values()], place, "o", color=BLUE)
    axes.set_yticks(place, [f"{task}: {name}" for task, name in shares], fontsize=8)
    axes.set(title="Coverage", xlabel="% of intervals that contain the truth", xlim=(80, 100.5))
    return Picture(
        name="coverage",
        figure=figure,
        caption="The share of 95% intervals that contain the simulated truth, in rehearsals of the shipped study "
        "files. Grey: the claim.",
        alt="A dot for each study and analysis, near 95 per cent.",
    )


EXPERIMENT = Experiment(
    name="coverage",
    title="Do the intervals of an analysis contain the truth?",
    about="Every study file that comes with the package is rehearsed many times with fresh participants, some of whom "
    "leave, and each rehearsal is analysed with the functions of opportune analyse. The truth follows from all "
    "rehearsals together.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
