"""A record that was made on one machine, on another, whose processor and libraries round otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from course import answer_of
from study_text import numeric, study_text
from test_verify import LATER, SENSED, live

from opportune.engine.layout import Layout
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.rewards import Reward
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.state.packing import pack
from opportune.service.verify.check import rebuilt, verify

LAST_BITS = 2.0**-50
STUDIES = {
    "PACE": study_text(),
    "primal-dual": study_text(policy="PD2", budget=7.5),
    "one budget": study_text(shared=True, policy="PD1", budget=30.5),
    "one model": study_text(pooled=True),
    "both": study_text(shared=True, pooled=True, hard=True, budget=30),
    "numbers": numeric(study_text()),
}


@contextmanager
def elsewhere(by: float = LAST_BITS) -> Iterator[None]:
    """Another machine: what learning begins with, and features, differ in their last bits, or by more."""
    filled = Layout.filled

    def other(at: Layout, array: str, **groups: Any) -> Any:
        made = filled(at, array, **groups)
        if array == "constants":
            known = at.views("constants", made)
            for part in (known.noise, known.regularisation, known.prior, known.rows, known.columns, known.start):
                part[:] = part * (1.0 + by)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Layout, "filled", other)
        yield


def states_of(database: Database) -> dict[str, bytes]:
    """Everyone's state, folded from the record here."""
    with database.reading.connect() as connection:
        return {name: pack(person.agent) for name, person in rebuilt(connection).participants.items()}


@pytest.mark.parametrize("text", STUDIES.values(), ids=STUDIES)
def test_a_record_verifies_on_another_machine(database: Database, text: str) -> None:
    """Although its states have other bits there; the study can go on there, and come back."""
    live(database, text)
    here = states_of(database)
    with elsewhere():
        assert states_of(database) != here, "the control: it is another machine"
        assert verify(database).findings == []
        run_on(Writer(database))
        assert verify(database).findings == []
    assert verify(database).findings == []
    run_on(Writer(database))
    assert verify(database).findings == []


@pytest.mark.parametrize("text", STUDIES.values(), ids=STUDIES)
def test_what_differs_by_more_than_rounding_is_found(sqlite: Database, text: str) -> None:
    """The control: a machine that computes something else does not verify what was decided here."""
    live(sqlite, text)
    with elsewhere(by=1e-6):
        findings = verify(sqlite).findings
    assert any("state differs" in finding for finding in findings)
    assert any("when folded" in finding for finding in findings)


def run_on(writer: Writer) -> None:
    """Some more decisions of someone, with what becomes of them."""
    for count in range(8):
        sensed = {**SENSED, "stress": count % 4}
        made = answer_of(writer.do(Propose(who="app", received=LATER, participant="P001", given={"sensed": sensed})))
        if made["status"] == "nudge":
            told = {"mood": "low"}
            writer.do(Answer(who="staff", received=LATER, decision=made["decision"], answered=True, reported=told))
        writer.do(Reward(who="app", received=LATER, decision=made["decision"], reward=0.1 * count))
