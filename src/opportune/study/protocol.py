"""A document for ethics boards and monitors: the SPIRIT-AI items that a study file answers.

Everything else is marked as a gap for the study team.
"""

import hashlib
from collections.abc import Iterator

from opportune._version import __version__
from opportune.algorithm.version import ALGORITHM
from opportune.revealers.pace import Pace
from opportune.study.build import Study
from opportune.study.naming import article
from opportune.study.randomised import least_action, least_nudge
from opportune.study.schema import PolicyTable, StudyFile
from opportune.study.variables import VariableTable

GAP = "**To be written by the study team:**"
MOST_SHOWN = 12
"""At most this many levels of a variable are listed."""
_SECOND = {
    "admins": "Admins need a second factor.", "everyone": "Everyone who signs in needs a second factor.",
    "nobody": f"{GAP} why nobody needs a second factor, which the file says.",
}  # fmt: skip

_LEARNED = {
    False: "Each participant's effects are learned separately.",
    True: "One model of the effects is learned from all participants together.",
    "partial": "Each participant's effects are learned separately, and drawn towards what all participants have in "
    "common.",
}


def protocol(study: Study) -> str:
    """The document, in Markdown."""
    settings = study.settings
    parts = [
        _title(study, settings), _purpose(settings), _participants(settings), _inputs(settings), _bad_inputs(settings),
        _decisions(settings), _randomisation(settings), _people(settings), _safety(settings), _learning(settings),
        _blinding(settings), _analysis(settings), _data(settings), _access(study),
    ]  # fmt: skip
    text = "\n\n".join("\n\n".join(part) for part in parts)
    gaps = text.count(GAP)
    return f"{text}\n\n---\n\nGaps left: {gaps}. Each is marked: {GAP}\n"


def gap(text: str) -> str:
    """A gap for the study team to fill."""
    return f"{GAP} {text}"


def _title(study: Study, settings: StudyFile) -> Iterator[str]:
    general = settings.study
    fingerprint = hashlib.sha256(study.text.encode()).hexdigest()
    yield f"# {general.name}: the algorithm in the trial"
    yield "From the study file. Numbers in brackets are items of SPIRIT 2013 and of its extension SPIRIT-AI 2020."
    yield f"""## Version (SPIRIT-AI 11a i)

| | |
|---|---|
| study file, SHA-256 | `{fingerprint}` |
| software | Opportune {__version__}, algorithm version {ALGORITHM} |
| policy | {_policy(settings)} |"""
    yield (
        "The study file is frozen at launch; every event of the record contains its hash. Changes are "
        "amendments, with a "
        "reason and a date. The policy, what it knows, the budget and the number of participants cannot be "
        "changed during "
        "the study. It stays on one version of the algorithm to its end."
    )


def _policy(settings: StudyFile) -> str:
    chosen = _served(settings)
    if chosen is None:
        return gap("which of the policies in the file runs (`policy` in [serve])")
    name = chosen.name or chosen.kind
    return f"{name}: revealer {chosen.kind}, recommender {chosen.recommender}"


def _served(settings: StudyFile) -> PolicyTable | None:
    wanted = settings.serve.policy
    found = [entry for entry in settings.policies if wanted in {None, entry.name or entry.kind}]
    return found[0] if len(found) == 1 or (wanted is not None and found) else None


def _purpose(settings: StudyFile) -> Iterator[str]:
    nudge, actions = settings.nudge, settings.study.actions
    yield "## Intended use (SPIRIT-AI 1, 6a)"
    yield (
        f"At each decision point the algorithm decides whether a participant gets {article(nudge.name)}, and which of "
        f"{len(actions)} recommendations to give. {article(nudge.name, capital=True)} that is answered reveals "
        "what only the participant knows, and updates the recommendation to everything learned meanwhile; without one "
        "the recommendation rests on what was known at the last answer, and may still vary by chance or in turn."
    )
    yield "\n".join(["| recommendation | what people read | never given |", "|---|---|---|", *_actions(settings)])
    yield gap("the place of this in the clinical pathway, and who is meant to act on it (6a i)")
    yield gap("what is known of the algorithm so far, and of earlier versions of it (6a ii)")


def _actions(settings: StudyFile) -> Iterator[str]:
    for name in settings.study.actions:
        entry = settings.actions.get(name)
        label = (entry and (entry.description or entry.label)) or gap("a label or description")
        yield f"| {name} | {label} | {f'if {entry.never_if}' if entry and entry.never_if else '–'} |"


def _participants(settings: StudyFile) -> Iterator[str]:
    people, general = settings.participants, settings.study
    planned = (
        gap("the number of participants (`planned` in [participants])") if people.planned is None else people.planned
    )
    yield f"## Participants (SPIRIT 10, 14; SPIRIT-AI 10)\n\nPlanned: {planned}."
    yield f"Decision points for each: {general.horizon}."
    if people.baseline:
        yield f"Known of each at enrolment: {', '.join(people.baseline)}."
    yield gap("who may take part and who may not, participants (10 i) and their devices and data (10 ii)")


def _inputs(settings: StudyFile) -> Iterator[str]:
    yield "## Input data (SPIRIT-AI 11a ii)"
    rows = [
        f"| {name} | {_seen(entry)} | {_values(entry)} | {entry.label or '–'} |" for name, entry in _variables(settings)
    ]
    yield "\n".join(["| variable | known | values | label or question |", "|---|---|---|---|", *rows])
    yield (
        "*Public* variables are known to all. *Sensed* ones are known to the algorithm at every decision point, and to "
        "the recommendation only after contact. *Reported* ones are known to nobody before participants report them."
    )
    yield gap("how each sensed variable is measured, by which devices, and how it was validated")


def _variables(settings: StudyFile) -> Iterator[tuple[str, VariableTable]]:
    yield from settings.variables.items()


def _seen(entry: VariableTable) -> str:
    return "public, from the calendar" if entry.schedule is not None else entry.visibility


def _values(entry: VariableTable) -> str:
    if entry.schedule is not None:
        return entry.schedule
    if entry.levels is not None:
        shown = ", ".join(map(str, entry.levels[:MOST_SHOWN]))
        return shown + (", ..." if len(entry.levels) > MOST_SHOWN else "")
    return "–" if entry.range is None else f"{entry.range[0]:g} to {entry.range[1]:g}"


def _bad_inputs(settings: StudyFile) -> Iterator[str]:
    reward, serve = settings.reward, settings.serve
    yield "## Missing and poor data (SPIRIT-AI 11a iii)"
    yield (
        f"- A sensed value is missing, or the participant is unavailable: no {settings.nudge.name}, the last advice "
        "stands, nothing is learned; the reason is on record.\n"
        "- Invalid values are rejected and not stored.\n"
        f"- An outcome may arrive within {reward.wait_hours:g} hours; after that "
        + (
            "it is skipped, and nothing is learned from that decision."
            if reward.default is None
            else f"{reward.default:g} stands in for it, marked as imputed."
        )
        + "\n- Outcomes outside of "
        + (gap("`bounds` in [reward]") if reward.bounds is None else f"{reward.bounds[0]:g} to {reward.bounds[1]:g}")
        + " are rejected.\n"
        f"- A participant without a decision for {serve.silent_hours:g} hours raises an alert.\n"
        "- Corrections by staff, with a reason, keep the first value on record; decisions that were made stay."
    )


def _decisions(settings: StudyFile) -> Iterator[str]:
    schedule, nudge = settings.schedule, settings.nudge
    times = (
        gap("the times of decisions (`times` in [schedule])") if schedule.times is None else ", ".join(schedule.times)
    )
    yield "## Output, and how it contributes to decisions (SPIRIT-AI 11a v, vi)"
    yield f"Decisions are made at {times}, by each participant's clock ({schedule.timezone} unless enrolled otherwise)."
    limits = [
        f"answers count for {nudge.answer_minutes:g} minutes",
        *([] if nudge.quiet is None else [f"none from {nudge.quiet[0]} to {nudge.quiet[1]}"]),
        *([] if nudge.per_week is None else [f"at most {nudge.per_week} for one person in seven days"]),
        *([] if nudge.least_hours_between is None else [f"{nudge.least_hours_between:g} hours between two"]),
    ]
    yield f"Limits of {article(nudge.name)}: {'; '.join(limits)}."
    budget = settings.serve.budget or (settings.study.budgets[0] if len(settings.study.budgets) == 1 else None)
    of = "for all participants together, per participant" if settings.study.budget_shared else "for each participant"
    kind = "never more" if settings.study.budget_kind == "hard" else "expected number"
    yield f"Budget: {gap('`budget` in [serve]') if budget is None else f'{budget:g} {nudge.several} {of} ({kind})'}."


def _randomisation(settings: StudyFile) -> Iterator[str]:
    yield "## Randomisation (SPIRIT 16)"
    if settings.arms is None:
        yield "Participants are not randomised to arms; decisions are randomised within each participant."
    else:
        shares = ", ".join(f"{name} {arm.share}" for name, arm in settings.arms.named.items())
        strata = ", ".join(settings.arms.strata) or "none"
        yield (f"Arms by share: {shares}. Permuted blocks of {settings.arms.block_size}, strata: {strata}.")
    yield (
        "Every coin and every allocation follows from a secret seed, made at launch from the operating system's "
        "randomness "
        "and stored apart from what any role can read. The record holds a commitment to it (SHA-256 with a "
        "salt); closing "
        "the study discloses it, and from then on anyone can recompute every coin. Nobody can foresee or choose one."
    )
    served, given = _served(settings), settings.probabilities.nudge
    by_rule = served is not None and served.kind == Pace.kind  # by default, other rules do not randomise nudges
    action, nudge = least_action(settings, served=True), least_nudge(settings, served=True) if by_rule else given
    for name, value in (("each allowed recommendation", action), (article(settings.nudge.name), nudge)):
        yield f"Least probability of {name}: {'not set' if not value else f'{value:g}'}."


def _people(settings: StudyFile) -> Iterator[str]:
    staff, nudge = settings.staff, settings.nudge
    who = "study staff" if settings.serve.nudges_by == "staff" else "the app"
    yield "## People and the algorithm (SPIRIT-AI 9, 11a iv)"
    yield (
        f"{article(nudge.name, capital=True)} is made by {who}. Staff see whom to contact, why now, and what to "
        "advise; they do not decide when."
    )
    if settings.serve.nudges_by == "staff":
        hours = gap("when staff work (`hours` in [staff])") if staff.hours is None else "as [staff] in the file says"
        yield f"Staff hours: {hours}. Most in a day: {staff.per_day or nudge.per_day or 'not limited'}."
        yield gap(
            "what staff are trained in, and by whom; `opportune rehearse` plays the study with simulated participants"
        )
    questions = [entry.question for _, entry in _variables(settings) if entry.question]
    if questions:
        yield "What participants are asked:\n\n" + "\n".join(f"- {text}" for text in questions)


def _safety(settings: StudyFile) -> Iterator[str]:
    fallback = settings.serve.fallback or settings.study.actions[0]
    yield "## When it fails, and safety (SPIRIT 21, 22; SPIRIT-AI 22)"
    yield (
        f"If the learned policy cannot decide, the fallback does: *{fallback}*, and {article(settings.nudge.name)} "
        "with the budget's even rate. Such decisions are marked in the record and raise a red alert. A budget cannot "
        "be overspent. Nothing is answered before it is stored; a service whose clock is in doubt records nothing."
    )
    forbidden = [name for name, entry in settings.actions.items() if entry.never_if]
    if not forbidden:
        yield gap(
            "whether any recommendation must never be given to somebody (`never_if` in [actions.NAME]); none is "
            "excluded"
        )
    yield gap("harms that are foreseen, how they are noticed and reported, and who may stop the trial")
    yield gap("how errors of the algorithm are looked for and analysed (22)")


def _learning(settings: StudyFile) -> Iterator[str]:
    reward, served = settings.reward, _served(settings)
    yield "## Outcome and learning (SPIRIT 12)"
    yield f"The algorithm learns from the outcome of each decision: {reward.unit or gap('`unit` in [reward]')}."
    yield f"As the algorithm knows it: `{reward.formula}`. It is updated with {settings.learning.update}."
    if served is not None:
        yield _LEARNED[served.pooled]
    yield gap("the trial's outcomes, as the protocol defines them")


def _blinding(settings: StudyFile) -> Iterator[str]:
    unblinded = ", ".join(settings.serve.unblinded) or "nobody"
    yield "## Who sees what (SPIRIT 17)"
    yield f"""| role | sees |
|---|---|
| staff | their call list, participants under pseudonyms, no probabilities, prices or coins (exceptions: {unblinded}) |
| analysts | everything but the names of people; mean outcomes by arm |
| admins | everything but the secret seed, which no role sees before the study closes |
| an app's server | decisions and outcomes of all participants |
| a participant's phone | its own participant, by a token that can be revoked |"""
    yield "Who looked at what is logged; exports, verifications and changes of accounts are events of the record."


def _analysis(settings: StudyFile) -> Iterator[str]:
    primary = settings.analysis.primary
    yield "## Analysis (SPIRIT 20)"
    if primary is None:
        yield gap("the primary analysis ([analysis] primary)")
        return
    yield (
        f"Primary: the effect of {primary.estimand} on {primary.outcome}, over {primary.lag} decision points; "
        f"controls: "
        f"{primary.controls or 'those of the reward'}; moderators: {primary.moderators}."
    )
    yield gap("the statistical analysis plan that goes beyond it")


def _data(settings: StudyFile) -> Iterator[str]:
    redcap = ""
    if settings.redcap is not None:
        read = " Participants are enrolled from it." if settings.redcap.enrol is not None else ""
        redcap = f" Outcomes are written to a project in REDCap, without arms and probabilities.{read}"
    webhook = "are sent to one address, without participants' data" if settings.serve.webhook else "stay in the service"
    yield "## Data and their protection (SPIRIT 19, 27)"
    yield (
        "One append-only list of events holds what came in, what was answered, who did it and when; each event "
        "has the hash "
        "of the one before. `opportune verify` folds it again and compares every decision. Participants appear under "
        f"pseudonyms; names and telephone numbers are kept outside. Alerts {webhook}.{redcap} "
        f"{_SECOND[settings.serve.second_factor]}"
    )
    yield gap(
        "where the service and its backups run, who looks after them, how long data are kept, and who may have them"
    )
    yield gap("the list that leads from a pseudonym to a person: where it is, and who may see it")


def _access(study: Study) -> Iterator[str]:
    yield "## Access to the algorithm (SPIRIT-AI 29)"
    yield (
        "The software is open (MIT licence). With the study file, the record and the seed that closing "
        "discloses anyone can "
        "recompute every decision."
    )
    yield gap("where the study file and the record can be had, and from when on")
