"""Whether the tables hold what folding the record gives: every row, every column, every number of a state."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, func, select

from opportune.errors import StateError
from opportune.live.cohort import Cohort
from opportune.live.packing import merged
from opportune.live.rounding import is_shared_state_of, is_state_of, near
from opportune.service import tables
from opportune.service.person import Person
from opportune.service.refold import Refold, Verdict
from opportune.service.statements import stream


class Part(NamedTuple):
    """Which participants are looked at: of `of` in a row, by their numbers, these; all where there is one part."""

    numbers: tuple[int, ...] = (0,)
    of: int = 1

    def mine(self, participant: str) -> str:
        """The condition of a query by which each row is one part's; strangers are the first's.

        Who is in it is looked up once, not for each row: participants' rows are too large to stay at hand.
        """
        if self.of == 1:
            return "1 = 1"
        names = f"SELECT name FROM participants WHERE number % {self.of}"
        numbers = f"({', '.join(map(str, self.numbers))})"
        if 0 in self.numbers:
            return f"({participant} IS NULL OR {participant} NOT IN ({names} NOT IN {numbers}))"
        return f"{participant} IN ({names} IN {numbers})"


class Spending(NamedTuple):
    """What the decisions on record have spent: probabilities, and nudges."""

    spent: float
    nudges: int


def compare_people(connection: Connection, refold: Refold, part: Part) -> None:
    """Participants and their states."""
    verdict, fold = refold.verdict, refold.fold
    assert fold is not None
    shared = fold.running.policy.shared
    people = {row["name"]: row for row in _rows(connection, tables.participants, "name", part)}
    states = {row["participant"]: row for row in _rows(connection, tables.states, "participant", part)}
    for name, person in refold.persons.items():
        stored = people.pop(name, None)
        same(f"participant {name}", stored, person.row(shared=shared), verdict)
        if not _same_state(states.get(name), stored, person, alone=not fold.running.policy.together):
            verdict.add(f"participant {name}: the stored state is not what the record gives")
    for name in people:
        verdict.add(f"participant {name} is stored, but was never enrolled")


def _same_state(
    state: Mapping[str, Any] | None, stored: Mapping[str, Any] | None, person: Person, *, alone: bool
) -> bool:
    """Whether what is stored whole, and what has changed since, are a participant's state.

    One that is older than the participant's last event is not used, but made from the record: see `Ledger`.
    """
    if state is None or stored is None or state["seq"] > person.seq:
        return False
    changes = stored["changes"]
    if changes is None and state["seq"] != person.seq:
        return alone
    try:
        return is_state_of(person.agent, merged(state["data"], changes))
    except StateError:
        return False


def _same_shared(data: bytes, cohort: Cohort) -> bool:
    try:
        return is_shared_state_of(cohort, data)
    except StateError:
        return False


def _near(stored: Any, value: float) -> bool:
    """Of a sum, which may have been rounded otherwise."""
    return isinstance(stored, float) and near(stored, value)


def _rows(connection: Connection, table: Table, participant: str, part: Part) -> list[dict[str, Any]]:
    """A part's rows of a table."""
    mine = part.mine(f"{table.name}.{participant}")
    names = [column.name for column in table.columns]
    columns = ", ".join(f"{table.name}.{name}" for name in names)
    found = stream(connection, f"SELECT {columns} FROM {table.name} WHERE {mine}")
    return [dict(zip(names, row, strict=True)) for rows in found for row in rows]


class StoredRows:
    """The rows of `decisions` that are stored, one by one as the record comes to them.

    They are read along with it, as they nearly always lie in its order: so that only few are held at a time.
    """

    def __init__(self, connection: Connection, part: Part, names: Sequence[str]) -> None:
        columns = ", ".join(f"decisions.{name}" for name in names)
        mine = part.mine("decisions.participant")
        self._coming: Any = stream(connection, f"SELECT {columns} FROM decisions WHERE {mine}")
        self._place = names.index("id")
        self._here: dict[str, tuple[Any, ...]] = {}

    def take(self, name: str) -> tuple[Any, ...]:
        """The row of that id; raises `LookupError` if none is stored, or it was taken before."""
        while name not in self._here:
            rows = next(self._coming, None)
            if rows is None:
                raise LookupError(f"decision {name} is on record, but not stored")
            self._here |= {row[self._place]: row for row in rows}
        return self._here.pop(name)

    def used_up(self) -> bool:
        """Whether all that are stored were taken."""
        return not self._here and next(self._coming, None) is None

    def close(self) -> None:
        """Read no further."""
        self._coming.close()


def compare_decisions(connection: Connection, refold: Refold, part: Part) -> Spending:
    """One row per decision point: as many as are on record, and the same; what was spent by the record."""
    decisions, verdict = refold.decisions, refold.verdict
    names = refold.columns or tuple(column.name for column in tables.decisions.columns)
    spent, nudged, place = names.index("probability"), names.index("nudge"), names.index("id")
    known = decisions.values()
    spending = Spending(math.fsum([row[spent] for row in known]), sum([bool(row[nudged]) for row in known]))
    columns = ", ".join(f"decisions.{name}" for name in names)
    mine = part.mine("decisions.participant")
    left = dict(decisions)
    for rows in stream(connection, f"SELECT {columns} FROM decisions WHERE {mine}"):
        for row in rows:
            values = left.pop(row[place], None)
            if values is None:
                verdict.add(f"decision {row[place]} is stored, but not on record")
            elif tuple(values) != row:
                stored, expected = (dict(zip(names, found, strict=True)) for found in (row, values))
                same(f"decision {row[place]}", stored, expected, verdict)
    for name in left:
        verdict.add(f"decision {name} is on record, but not stored")
    return spending


def compare_study(connection: Connection, refold: Refold, spending: Spending) -> None:
    """The study's own row, what participants share, and that no budget is overspent."""
    verdict, fold = refold.verdict, refold.fold
    study = connection.execute(select(tables.study)).mappings().one_or_none()
    if study is None or fold is None:
        if verdict.count or study is not None:
            verdict.add("there are events, but no study; expected both or neither")
        return
    if (study["seq"], study["head"]) != (verdict.count, verdict.head):
        verdict.add(f"the study is as of event {study['seq']}; the record ends with event {verdict.count}")
    expected = {"hash": fold.running.hash, "status": "closed" if refold.closed else "open"}
    same("study", study, {**expected, "enrolled": refold.enrolled}, verdict)
    if fold.running.policy.together and not _same_shared(study["shared"], fold.cohort):
        verdict.add("what participants share is not what the record gives")
    _check_budget(connection, refold, study, spending)


def _check_budget(connection: Connection, refold: Refold, study: Mapping[Any, Any], spending: Spending) -> None:
    """The sum over the record is what is stored as spent, and not more than there is."""
    verdict, fold = refold.verdict, refold.fold
    assert fold is not None
    spent, nudges = spending
    stored, counted = study["spent"], study["nudges"]
    if not fold.running.policy.shared:
        table = tables.participants.c
        stored, counted = connection.execute(
            select(func.coalesce(func.sum(table.spent), 0.0), func.coalesce(func.sum(table.nudges), 0))
        ).one()
    if not math.isclose(stored, spent, rel_tol=1e-9, abs_tol=1e-6) or int(counted) != nudges:
        verdict.add(f"{stored:g} and {counted} nudges are stored as spent; the record sums to {spent:g} and {nudges}")
    if fold.running.amount is None:
        return
    for row in [study] if fold.running.policy.shared else connection.execute(select(tables.participants)).mappings():
        if row["spent"] > fold.running.amount + tables.SPARE or (
            fold.running.hard and row["nudges"] > fold.running.amount
        ):
            verdict.add(
                f"{row['name']}: {row['spent']:g} and {row['nudges']} nudges of {fold.running.amount:g} are spent"
            )


def same(what: str, stored: Mapping[Any, Any] | None, expected: Mapping[Any, Any], verdict: Verdict) -> None:
    """One row, column by column."""
    if stored is None:
        verdict.add(f"{what} is on record, but not stored")
        return
    for name, value in expected.items():
        if stored[name] != value and not (name == "spent" and _near(stored[name], value)):
            verdict.add(f"{what}: {name} is stored as {stored[name]!r}; the record gives {value!r}")
