"""Exports for analysts: CSV files, and the meaning of every column."""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from opportune.live.cohort import Cohort
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.service.commands.base import NOT_ASKED
from opportune.service.export.calls import (
    ALERTS,
    BUDGET,
    CALLS,
    ESCALATIONS,
)
from opportune.service.export.columns import (
    Column,
    answered,
    first_learned,
    free_name,
    local,
    opened,
    plain,
    reported_first,
    revealed,
    utc,
)
from opportune.service.export.probabilities import (
    intended,
    of_action,
)
from opportune.service.export.rows import rows_of
from opportune.service.record.database import Database
from opportune.service.record.queries import study_in_force
from opportune.service.state.projection import known_of
from opportune.service.state.study import StudyInForce

NAMES = ("decisions", "participants", "nudges", "rewards", "events", "calls", "budget", "escalations", "alerts")


_BEGINNING = (
    Column("participant", "text", "Pseudonym.", plain("participant")),
    Column("decision", "text", "The decision's id in the record.", plain("id")),
    Column("step", "integer", "Decision point, from 1.", plain("step")),
    Column("day", "integer", "Day of the study in the participant's time zone; enrolment is on day 1.", plain("day")),
    Column("time_utc", "time", "Time of the decision point, UTC.", utc("happened")),
    Column("time_local", "time", "Time of the decision point in the participant's time zone.", local("happened")),
    Column("timezone", "text", "The participant's time zone.", plain("timezone")),
    Column("received_utc", "time", "When the request for the decision arrived, UTC.", utc("received")),
    Column("available", "0/1", "The participant could be nudged, and everything was sensed.", plain("available")),
    Column("unavailable_reason", "text", "Why the participant was not available.", plain("reason")),
    Column(
        "past",
        "0/1",
        "The decision point became known too late for a nudge: the rule was not asked.",
        plain("past"),
    ),
    Column(
        "opened_before",
        "0/1",
        "The participant had opened the app unasked before a nudge could be decided on. A later opening is only in "
        "`opened`, and leaves the point eligible.",
        lambda row: row["outcome"] == "opened" and not row["nudge"],
    ),
    Column(
        "eligible",
        "0/1",
        "A nudge was possible here. Effects are estimated from eligible points with a probability between 0 and 1.",
        plain("eligible"),
    ),
    Column("ineligible_reason", "text", "Why no nudge was possible.", plain("ineligible_reason")),
    Column(
        "nudge_class",
        "text",
        "If nudges are randomised at candidate moments: rank, grid or guard if the rule would nudge, candidate if it "
        "nearly would; otherwise empty.",
        plain("nudge_class"),
    ),
)
_DECIDED = (
    Column("nudge", "0/1", "A nudge was made.", plain("nudge")),
    Column(
        "nudge_probability",
        "number",
        "Probability of a nudge after randomisation, with which the coin was compared; use it to weight and centre.",
        plain("probability"),
    ),
    Column(
        "nudge_probability_before",
        "number",
        "Probability with which the rule alone would have nudged, before `randomise`; the same without it.",
        plain("probability_before"),
    ),
    Column("coin", "number", "The coin; there is a nudge if it is below the probability.", plain("coin")),
    Column("gap", "number", "The value of knowing the context, as the rule estimates it.", plain("gap")),
    Column("price", "number", "The price with which the gap was compared.", plain("price")),
    Column("budget_before", "number", "Budget left before this decision.", plain("budget_before")),
    Column("budget_after", "number", "Budget left after this decision.", plain("budget_left")),
    Column("status", "text", "settled, or nudge while an answer may still change the action.", plain("status")),
    Column("opened", "0/1", "The participant opened the app unasked; empty while a nudge waits.", opened),
    Column("answered", "0/1", "The nudge was answered in time; empty without a nudge.", answered),
    Column(
        "outcome_corrected",
        "text",
        "The nudge's outcome after a later correction: opened, answered or unanswered; empty without a correction.",
        plain("outcome_corrected"),
    ),
    Column("reported_first", "JSON", "The values reported before a correction; empty without one.", reported_first),
    Column(
        "reported_first_learned",
        "0/1",
        "The policy has learned from the values reported first, and keeps that; empty without a correction.",
        first_learned,
    ),
    Column("answered_late_utc", "time", "When an answer came after its window, UTC.", utc("answered_late")),
    Column("revealed", "0/1", "The recommender acted on the whole context; empty while a nudge waits.", revealed),
    Column("action", "text", "The recommended action.", plain("action")),
    Column("stale_action", "text", "The action that is valid without a reveal.", plain("stale_action")),
    Column("fresh_action", "text", "The action with all data but without a reveal.", plain("fresh_action")),
    Column("offline", "0/1", "The phone showed the action from its bundle.", plain("offline")),
)
_REWARD = (
    Column("reward", "number", "The reward, after corrections.", plain("reward")),
    Column(
        "reward_status",
        "text",
        "learned, waiting, skipped (given up) or nothing (the policy does not learn from this decision).",
        plain("reward_status"),
    ),
    Column("reward_received_utc", "time", "When it arrived or was last corrected, UTC.", utc("reward_received")),
    Column("reward_first", "number", "The reward before corrections.", plain("reward_first")),
    Column("reward_changes", "integer", "How often it was corrected.", plain("reward_changes")),
    Column("reward_imputed", "0/1", "It did not arrive and was replaced by the study's default.", plain("imputed")),
)
_END = (
    Column("mode", "text", "learned, or fallback if the learned policy could not be used.", plain("mode")),
    Column(
        "policy_version", "text", "Beginning of the hash of the study file in force, as exported.", plain("features")
    ),
    Column("software_version", "text", "The version of Opportune.", plain("version")),
)
ARM = Column("arm", "text", "Arm of the trial; empty without arms.", lambda row: row["arm"] or None)
PARTICIPANTS = (
    Column("participant", "text", "Pseudonym.", plain("name")),
    ARM,
    Column("number", "integer", "Number in the order of enrolment, from 0.", plain("number")),
    Column("timezone", "text", "Time zone.", plain("timezone")),
    Column("status", "text", "active, paused, withdrawn or completed.", plain("status")),
    Column("reason", "text", "Reason for the status.", plain("reason")),
    Column("calls", "0/1", "The participant wants to be called.", plain("calls")),
    Column("enrolled_utc", "time", "Time of enrolment, UTC.", utc("enrolled")),
    Column("steps", "integer", "Decisions made.", plain("step")),
    Column(
        "spent",
        "number",
        "Spent from the participant's own budget: the sum of nudge probabilities, or of nudges if the policy counts "
        "those.",
        plain("spent"),
    ),
    Column("nudges", "integer", "Nudges made from the participant's own budget.", plain("nudges")),
    Column("last_decision_utc", "time", "Time of the last decision point, UTC.", utc("last_decided")),
    Column("last_reveal_utc", "time", "Time of the last reveal, UTC.", utc("last_reveal")),
)
_EVENT = (
    Column("seq", "integer", "Number in the record.", plain("seq")),
    Column("kind", "text", "What happened.", plain("kind")),
    Column("participant", "text", "Pseudonym.", plain("participant")),
    Column("decision", "text", "The decision that the event concerns.", plain("decision")),
    Column("step", "integer", "Its decision point.", plain("step")),
    Column("who", "text", "Who did it: an app by the name of its key, people by role and number.", plain("who")),
    Column("received_utc", "time", "When the service received it, UTC.", plain("received")),
    Column("happened_utc", "time", "When it took place, UTC.", plain("happened")),
)
EVENTS = (
    *_EVENT,
    Column("timezone", "text", "The participant's time zone at that time.", plain("timezone")),
    Column("software_version", "text", "The version of Opportune.", plain("version")),
    Column(
        "study_hash", "text", "Hash of the study file in force, as exported: SHA-256 of study.toml.", plain("study")
    ),
    Column("given", "JSON", "The input.", lambda row: msgspec.json.encode(row["given"]).decode()),
    Column("answer", "JSON", "The algorithm's answer.", lambda row: msgspec.json.encode(row["answer"]).decode()),
)
REWARDS = (
    *_EVENT,
    Column(
        "reward",
        "number",
        "The reward from then on; empty if it was given up.",
        lambda row: row["given"].get("reward"),
    ),
    Column("was", "number", "The reward before a correction.", lambda row: row["given"].get("was")),
    Column("reason", "text", "Why it was corrected.", lambda row: row["given"].get("reason")),
    Column(
        "cause",
        "text",
        "default or overdue, if the study's rule replaced the reward or gave it up.",
        lambda row: row["given"].get("cause"),
    ),
)


def decision_columns(running: StudyInForce, cohort: Cohort) -> tuple[Column, ...]:
    """The columns of decisions.csv, with one for each variable of the study."""
    problem = cohort.problem
    scheduled = problem.schedule.variables

    def variable(name: str) -> Column:
        seen = "public" if name in scheduled else problem.visibility[name]

        def value(row: dict[str, Any]) -> Any:
            if seen == "reported":
                known = known_of(row)
                return None if known is None else msgspec.json.decode(known).get(name)
            given = {} if row["reason"] == NOT_ASKED else msgspec.json.decode(row["sensed"])
            if name in given or name not in scheduled:
                return given.get(name)
            return problem.schedule.values(row["step"])[name]

        kinds = {"reported": "reported; empty until a reveal uncovers it", "sensed": "sensed", "public": "public"}
        return Column(
            free_name(name, taken, problem.visibility), "value", f"Variable {name!r} of the study, {kinds[seen]}.",
            value,
        )  # fmt: skip

    before, after = (
        (*_BEGINNING[:1], ARM, *_BEGINNING[1:]),
        (_features(problem), *_DECIDED, *_actions(running), *_REWARD, *_END),
    )
    taken = {column.name for column in (*before, *after)}
    variables = tuple(map(variable, problem.visibility))
    baseline = [name for name in running.study.settings.participants.baseline if name not in problem.visibility]
    return (*before, *_baseline(baseline, taken | {column.name for column in variables}), *variables, *after)


def _actions(running: StudyInForce) -> tuple[Column, ...]:
    """Columns with the probability of the action taken, and of each action of the study."""
    names = running.study.settings.study.actions

    def probability(name: str | None) -> Callable[[dict[str, Any]], Any]:
        return lambda row: of_action(row["policy"], names, row, row["action"] if name is None else name)

    given = "given the state and whether there was a reveal; empty if unknown"
    return (
        Column(
            "action_intended",
            "text",
            "The action that was most probable before the minimum probability was applied; empty while a nudge waits.",
            lambda row: intended(names, row),
        ),
        Column(
            "action_draw",
            "number",
            "The draw, from 0 to 1: the action is the first whose cumulative probability exceeds it; empty if no "
            "action is drawn.",
            lambda row: None if row["drawn"] is None else row["drawn"].draw,
        ),
        Column("action_probability", "number", f"The probability of the action, {given}.", probability(None)),
        *(Column(f"action_probability_{name}", "number", f"The probability of {name!r}, {given}.", probability(name))
          for name in names),
    )  # fmt: skip


def _features(problem: Problem | ContinuousProblem) -> Column:
    """The column that identifies the features by a hash of what defines them, which no amendment changes."""
    version = hashlib.sha256(json.dumps(problem.to_dict(), sort_keys=True).encode()).hexdigest()[:12]
    meaning = "Beginning of the hash of what defines the features: variables, formula, actions."
    return Column("features_version", "text", meaning, lambda row: version)


def columns_of(name: str, running: StudyInForce) -> tuple[Column, ...]:
    """The columns of an export."""
    if name in {"decisions", "nudges"}:
        return decision_columns(running, next(iter(running.cohorts().values())))
    others = {
        "participants": (
            *PARTICIPANTS,
            *_baseline(running.study.settings.participants.baseline, {column.name for column in PARTICIPANTS}),
        ),
        "rewards": REWARDS,
        "events": EVENTS,
        "calls": CALLS,
        "budget": BUDGET,
        "escalations": ESCALATIONS,
        "alerts": ALERTS,
    }
    return others[name]


def _baseline(names: Iterable[str], taken: set[str]) -> tuple[Column, ...]:
    """Columns for the values given at enrolment, with names that are not taken."""

    def known(name: str) -> Callable[[dict[str, Any]], Any]:
        return lambda row: None if row["baseline"] is None else msgspec.json.decode(row["baseline"]).get(name)

    return tuple(
        Column(free_name(name, taken, names), "value", f"Variable {name!r}, given at enrolment.", known(name))
        for name in names
    )


def export(database: Database, name: str) -> Iterator[str]:
    """An export as CSV, in pieces of text."""
    running = study_in_force(database)
    columns = columns_of(name, running)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow([column.name for column in columns])
    for row in rows_of(database, running, name):
        writer.writerow([cell(column.value(row)) for column in columns])
        if buffer.tell() > 60_000:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def cell(value: Any) -> Any:
    """A value for a CSV file: 0 or 1 for no and yes, empty for None.

    Text that a spreadsheet would read as a formula gets a leading apostrophe.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return "'" + value
    return value


def dictionary(database: Database) -> dict[str, Any]:
    """The meaning of every column of every export."""
    running = study_in_force(database)
    return {
        "study": running.study.name,
        "missing": "An empty cell means that there is no value.",
        "texts": "Text that begins with =, +, - or @ has a leading apostrophe, so that it is not read as a formula.",
        "files": {
            f"{name}.csv": [
                {"column": column.name, "type": column.type, "meaning": column.meaning}
                for column in columns_of(name, running)
            ]
            for name in NAMES
        },
    }
