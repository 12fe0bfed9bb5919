"""Compares the tables with the result of folding the record: every row, every column, every number of a state."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, select

from opportune.algorithm.version import ALGORITHM
from opportune.errors import StateError
from opportune.service.record import tables
from opportune.service.verify.replay import Replay, Verdict
from opportune.service.verify.rounding import is_shared_state_of, is_state_of, near

AT_ONCE = 1000


class Spending(NamedTuple):
    """What the recorded decisions have spent: probabilities (nudges, if the policy charges those), and nudges."""

    spent: float
    nudges: int


def read_rows(connection: Connection, query: Select[Any]) -> Iterator[Any]:
    """The rows of a query, fetched in batches to save memory."""
    yield from connection.execute(query, execution_options={"yield_per": AT_ONCE})


def compare_people(connection: Connection, replay: Replay) -> None:
    """Compare participants and their states."""
    verdict, fold = replay.verdict, replay.fold
    assert fold is not None
    left = dict(replay.participants)
    for row in read_rows(connection, select(tables.participants)):
        stored = row._mapping
        name = stored["name"]
        person = left.pop(name, None)
        if person is None:
            verdict.add(f"participant {name} is stored, but was never enrolled")
            continue
        _compare(f"participant {name}", stored, person.row(shared=fold.running.shared), verdict)
        if not _holds(is_state_of, person.agent, stored["state"]):
            verdict.add(f"participant {name}: the stored state differs from the record's")
    for name in left:
        verdict.add(f"participant {name} is on record, but not stored")


def _holds(check: Callable[[Any, bytes], bool], owner: Any, data: bytes) -> bool:
    """Whether a stored state can be read and belongs to this agent or these cohorts."""
    try:
        return check(owner, data)
    except StateError:
        return False


def compare_decisions(connection: Connection, replay: Replay) -> Spending:
    """Compare the rows of decisions; returns what they have spent according to the record."""
    verdict, left = replay.verdict, dict(replay.decisions)
    names = replay.columns or tuple(column.name for column in tables.decisions.columns)
    place, who, chance, nudged = (names.index(name) for name in ("id", "participant", "probability", "nudge"))
    counted = {name for name, person in replay.participants.items() if person.agent.policy.counted}
    known = left.values()
    spending = Spending(
        math.fsum([float(row[nudged] if row[who] in counted else row[chance]) for row in known]),
        sum([bool(row[nudged]) for row in known]),
    )
    for row in read_rows(connection, select(*(tables.decisions.c[name] for name in names))):
        values = left.pop(row[place], None)
        if values is None:
            verdict.add(f"decision {row[place]} is stored, but not on record")
        elif tuple(values) != tuple(row):
            _compare(f"decision {row[place]}", row._mapping, dict(zip(names, values, strict=True)), verdict)
    for name in left:
        verdict.add(f"decision {name} is on record, but not stored")
    return spending


def compare_escalations(connection: Connection, replay: Replay) -> None:
    """Compare escalations, and who has acknowledged them."""
    verdict, left = replay.verdict, dict(replay.escalations)
    for row in read_rows(connection, select(tables.escalations)):
        stored = row._mapping
        expected = left.pop(stored["id"], None)
        if expected is None:
            verdict.add(f"escalation {stored['id']} is stored, but not on record")
        else:
            _compare(f"escalation {stored['id']}", stored, expected, verdict)
    for name in left:
        verdict.add(f"escalation {name} is on record, but not stored")


def compare_study(connection: Connection, replay: Replay, spending: Spending) -> None:
    """Compare the study's own row and the shared state, and look for overspent budgets."""
    verdict, fold = replay.verdict, replay.fold
    study = connection.execute(select(tables.study)).mappings().one_or_none()
    if study is None or fold is None:
        if verdict.count or study is not None:
            verdict.add("there are events, but no study; expected both or neither")
        return
    if (study["seq"], study["head"]) != (verdict.count, verdict.head):
        verdict.add(f"the study's row ends with event {study['seq']}; the record ends with event {verdict.count}")
    running = fold.running
    expected = {
        "hash": running.hash, "status": "closed" if replay.closed else "open", "name": running.study.name,
        "enrolled": replay.enrolled, "amendments": replay.amendments, "pooled": replay.pooled,
        "launched": replay.launched, "rehearsal": replay.rehearsal, "algorithm": ALGORITHM, "hard": int(running.hard),
        "amount": running.amount if running.shared else None,
    }  # fmt: skip
    _compare("study", study, expected, verdict)
    if study["file"] != running.text:
        verdict.add("study: the stored file is not the one in force according to the record")
    if fold.running.together and not _holds(is_shared_state_of, fold.cohorts, study["shared"]):
        verdict.add("study: the stored shared state differs from the record's")
    _check_budget(connection, replay, study, spending)


def _check_budget(connection: Connection, replay: Replay, study: Mapping[Any, Any], spending: Spending) -> None:
    """Check that the stored spending equals the record's sum and stays within the budget."""
    verdict, fold = replay.verdict, replay.fold
    assert fold is not None
    spent, nudges = spending
    stored, counted = study["spent"], study["nudges"]
    if not fold.running.shared:
        table = tables.participants.c
        stored, counted = connection.execute(
            select(func.coalesce(func.sum(table.spent), 0.0), func.coalesce(func.sum(table.nudges), 0))
        ).one()
    if not math.isclose(stored, spent, rel_tol=1e-9, abs_tol=1e-6) or int(counted) != nudges:
        verdict.add(f"the stored spending is {stored:g} and {counted} nudges; the record's is {spent:g} and {nudges}")
    rows = [study] if fold.running.shared else connection.execute(select(*tables.PARTICIPANT)).mappings()
    for row in rows:
        amount = row["amount"]
        if amount is not None and (
            row["spent"] > amount + tables.SPARE or (fold.running.hard and row["nudges"] > amount)
        ):
            verdict.add(f"{row['name']}: {row['spent']:g} and {row['nudges']} nudges spent; the budget is {amount:g}")


def _compare(what: str, stored: Mapping[Any, Any], expected: Mapping[Any, Any], verdict: Verdict) -> None:
    """Compare one row, column by column."""
    for name, value in expected.items():
        if stored[name] != value and not (name == "spent" and _near(stored[name], value)):
            verdict.add(f"{what}: {name} is stored as {stored[name]!r}; the record gives {value!r}")


def _near(stored: Any, value: float) -> bool:
    """Whether two sums are equal but for rounding."""
    return isinstance(stored, float) and near(stored, value)
