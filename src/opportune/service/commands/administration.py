"""Launching, amending and closing a study."""

import difflib
from pathlib import PurePath
from typing import Any, ClassVar

import msgspec

from opportune.errors import InputError
from opportune.service.commands.base import Answered, Command, open_study
from opportune.service.commands.corrections import correct_calendars
from opportune.service.commands.decisions import settle_open
from opportune.service.problems import Refused
from opportune.service.record import events
from opportune.service.record.transaction import Transaction
from opportune.service.state.study import StudyInForce


class Launch(Command, kw_only=True):
    """Launch a study: its file is frozen."""

    file: str
    source: str
    rehearsal: bool = False
    """Whether participants are simulated; the first event fixes this for the whole record."""

    def run(self, transaction: Transaction) -> Answered:
        """Launch the study; if it was launched before, only check that the file is the one in force."""
        if transaction.study is not None:
            if bool(transaction.study["rehearsal"]) != self.rehearsal:
                what = "a study with people" if self.rehearsal else "a rehearsal"
                raise Refused(
                    "exists",
                    f"the database contains {what}; expected another database (--db), or --rehearsal given or omitted "
                    "as at launch",
                )
            if StudyInForce.from_text(self.file, self.source).hash != transaction.running.hash:
                text = f"{self.source} differs from the study file in force, as launched or last amended"
                raise Refused("exists", f"{text}; see opportune amend for changes")
            return 200, {"study": transaction.study["name"], "launched": False}
        transaction.launch(
            StudyInForce.from_text(self.file, self.source),
            who=self.who,
            received=self.received,
            source=self.source,
            rehearsal=self.rehearsal,
        )
        assert transaction.study is not None
        return 201, {"study": transaction.study["name"], "launched": True}


class Amend(Command, kw_only=True):
    """Put another study file in force, with a reason."""

    file: str
    source: str
    reason: str
    origin: dict[str, str] = msgspec.field(default_factory=dict)
    """The place from which the author acted, for the record."""

    def run(self, transaction: Transaction) -> Answered:
        """Put the file in force; refuse one that would change decisions."""
        open_study(transaction)
        running = StudyInForce.from_text(self.file, self.source)
        if running.hash == transaction.running.hash:
            raise InputError(f"{self.source} is the study file in force; expected one that differs")
        refuse_changes(transaction.running, running, self.source)
        given = {"file": self.file, "source": PurePath(self.source).name, "reason": self.reason, **self.origin}
        event = transaction.amend(running, given, who=self.who, received=self.received)
        return 200, {"event": event.seq, "hash": running.hash}


class ConfirmClock(Command, kw_only=True):
    """Confirm that the server's clock is right, despite the doubt about it."""

    reason: str
    origin: dict[str, str] = msgspec.field(default_factory=dict)
    """The place from which the author acted, for the record."""

    def run(self, transaction: Transaction) -> Answered:
        """Record the confirmation, which lets waiting services continue, and repair dates in the future."""
        if transaction.study is None:
            raise Refused("not_found", "no study is launched in this database")
        given = {"reason": self.reason, **self.origin}
        event = transaction.administer(events.CLOCK, given, who=self.who, received=self.received)
        if transaction.study["status"] == "open":
            correct_calendars(transaction, self, self.reason)
        return 200, {"event": event.seq}


class Close(Command, kw_only=True):
    """Close the study: nobody can enrol, and no more decisions are made."""

    settles: ClassVar[bool] = True

    reason: str
    origin: dict[str, str] = msgspec.field(default_factory=dict)
    """The place from which the author acted, for the record."""

    def run(self, transaction: Transaction) -> Answered:
        """Settle open nudges as unanswered, and close the study."""
        open_study(transaction)
        from opportune.service.record.tables import participants  # noqa: PLC0415

        query = participants.select().where(participants.c.open_decision.is_not(None))
        for row in transaction.connection.execute(query).mappings().all():
            settle_open(transaction, transaction.person(row["name"]), cause="closed", command=self)
        event = transaction.close({"reason": self.reason, **self.origin}, who=self.who, received=self.received)
        return 200, {"event": event.seq}


def difference(old: str, new: str) -> str:
    """The lines in which two study files differ, as a unified diff."""
    before, after = ([f"{line}\n" for line in text.splitlines()] for text in (old, new))
    return "".join(difflib.unified_diff(before, after, "in force", "amended", n=1))


def refuse_changes(old: StudyInForce, new: StudyInForce, source: str) -> None:
    """Refuse an amendment that would change how decisions are made: that would be another study."""
    was, will = _deciding(old), _deciding(new)
    changed = [name for name in was if was[name] != will[name]]
    if changed:
        raise InputError(
            f"{source} changes {', '.join(changed)}, which would change decisions; expected these unchanged: launch "
            "another study to change them"
        )


def _deciding(running: StudyInForce) -> dict[str, Any]:
    cohort = next(iter(running.cohorts().values()))
    return {
        "name": running.study.name,
        "what agents know (variables, actions, reward)": cohort.problem.to_dict(),
        "policy and budget": {arm: policy.describe() for arm, policy in running.policies.items()},
        "arms and how they are allocated": _arms(running),
        "what is known at enrolment": running.study.settings.participants.baseline,
        "horizon": running.horizon,
        "seed": running.seed,
        "planned participants": running.participants,
        "decision times": len(running.times),
    }


def _arms(running: StudyInForce) -> Any:
    arms = running.study.settings.arms
    return None if arms is None else {**arms.model_dump(), "block": arms.block_size}
