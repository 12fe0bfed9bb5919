"""The tables: the record of events, and what follows from it, kept because asking the record would take long.

`events` is the truth. `study`, `participants`, `states` and `decisions` are what folding it gives, written in the same
transaction; `verify` folds it again and compares. `requests` and `recent` hold what was answered to whom, so that a
retry gets the same bytes. Times are microseconds since 1970, UTC.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    cast,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NullType

metadata = MetaData()
SPARE = 1e-6
"""Expected budgets are sums of probabilities, which are rounded."""


def _within(prefix: str) -> CheckConstraint:
    """The budget invariant, in the database: never more than there is, counted if the budget is hard."""
    rule = f"amount IS NULL OR (spent <= amount + {SPARE} AND (hard = 0 OR nudges <= amount))"
    return CheckConstraint(f"({rule}) AND spent >= 0 AND nudges >= 0", name=f"{prefix}_budget")


study = Table(
    "study",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("seq", BigInteger, nullable=False),  # the last event
    Column("head", Text, nullable=False),  # its hash
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False),  # of the study file in force
    Column("status", Text, nullable=False),  # open or closed
    Column("launched", BigInteger, nullable=False),
    Column("enrolled", Integer, nullable=False),
    Column("amendments", Integer, nullable=False),
    Column("amount", Float),  # of the budget that all share; NULL where each has its own, or none
    Column("hard", Integer, nullable=False),
    Column("spent", Float, nullable=False),
    Column("nudges", Integer, nullable=False),
    Column("file", Text, nullable=False),
    Column("shared", LargeBinary, nullable=False),  # the model and the budget, where they are shared
    CheckConstraint("id = 1", name="study_one"),
    _within("study"),
)

# Each index by participant costs a decision a page: events are found by their decisions (`made_for`), but for those
# that are about none. A decision's first event needs no index: the decision is called after it.
_FOLLOWING, _ABOUT_NONE = text("kind <> 'proposed'"), text("decision IS NULL")

events = Table(
    "events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("participant", Text),
    Column("decision", Text),
    Column("who", Text, nullable=False),
    Column("received", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("events_participant", "participant", "seq", sqlite_where=_ABOUT_NONE, postgresql_where=_ABOUT_NONE),
    Index("events_decision", "decision", sqlite_where=_FOLLOWING, postgresql_where=_FOLLOWING),
    Index("events_skipped", "seq", sqlite_where=text("kind = 'skipped'"), postgresql_where=text("kind = 'skipped'")),
)

participants = Table(
    "participants",
    metadata,
    Column("name", Text, primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("stream", BigInteger, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("enrolled", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),  # the last event about the participant
    Column("step", Integer, nullable=False),
    Column("latest", Text),  # decision
    Column("open_decision", Text),
    Column("last_decided", BigInteger),
    Column("last_reveal", BigInteger),
    Column("amount", Float),  # of the participant's own budget
    Column("hard", Integer, nullable=False),
    Column("spent", Float, nullable=False),
    Column("nudges", Integer, nullable=False),
    Column("changes", LargeBinary),  # what of the state differs from what `states` has; NULL: nothing does
    _within("participants"),
)

states = Table(
    "states",
    metadata,
    Column("participant", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),  # when it was written: not with every event, as most change little of it
    Column("data", LargeBinary, nullable=False),
)

# Indexes of what is still to come hold little, and grow at their end: a decision that is over costs them nothing.
_OPEN = text("status = 'nudge'")
_UNREWARDED = text("reward_due IS NOT NULL")
_DUE = ("reward_due", "happened", "participant")  # all that is asked for of what is due

decisions = Table(
    "decisions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("participant", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("previous", Text),  # the participant's decision before this one; NULL: this is the first
    Column("seq", BigInteger, nullable=False),  # the last event that changed it
    Column("day", Integer, nullable=False),
    Column("happened", BigInteger, nullable=False),
    Column("received", BigInteger, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("sensed", Text, nullable=False),
    Column("reported", Text),
    Column("available", Boolean, nullable=False),
    Column("reason", Text),
    Column("nudge", Boolean, nullable=False),
    Column("probability", Float, nullable=False),
    Column("coin", Float, nullable=False),
    Column("gap", Float, nullable=False),
    Column("price", Float, nullable=False),
    Column("disagreement", Float, nullable=False),
    Column("tolerance", Float, nullable=False),
    Column("fresh_action", Text, nullable=False),
    Column("stale_action", Text, nullable=False),
    Column("budget_before", Float),
    Column("budget_left", Float),
    Column("mode", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("expires", BigInteger),
    Column("status", Text, nullable=False),  # nudge or settled
    Column("outcome", Text),  # opened, answered, unanswered, none
    Column("settled", BigInteger),
    Column("action", Text, nullable=False),
    Column("revealed", Boolean, nullable=False),
    Column("offline", Boolean, nullable=False),
    Column("answered_late", BigInteger),
    Column("seen", Boolean, nullable=False),  # its context is known to the revealer
    Column("unanswered", Boolean, nullable=False),
    Column("reward_status", Text, nullable=False),  # waiting, learned, skipped, nothing
    Column("reward", Float),
    Column("reward_received", BigInteger),
    Column("reward_first", Float),
    Column("reward_changes", Integer, nullable=False),
    Column("reward_due", BigInteger),  # when it is no longer waited for; NULL once it is there or given up
    Column("features", Text, nullable=False),  # the study file in force, by the beginning of its hash
    Column("version", Text, nullable=False),
    # SQLite has no index by participant, which would cost a decision a page: see `made_for`.
    UniqueConstraint("participant", "step", name="decisions_step").ddl_if(dialect="postgresql"),
    Index("decisions_seq", "participant", "seq").ddl_if(dialect="postgresql"),  # what other processes have changed
    Index("decisions_due", *_DUE, sqlite_where=_UNREWARDED, postgresql_where=_UNREWARDED),
    Index("decisions_open", "expires", "id", sqlite_where=_OPEN, postgresql_where=_OPEN),
    Index("decisions_nudged", "settled", sqlite_where=text("nudge = 1"), postgresql_where=text("nudge")),
)

open_nudge = decisions.c.status == literal_column("'nudge'")
"""A nudge waits for an answer; written out, so that databases see that their index of open nudges has it."""

following = events.c.kind != literal_column("'proposed'")
"""An event about a decision after the one that it is called after; likewise written out."""


class made_for(FunctionElement[Any]):  # noqa: N801  (as SQLAlchemy calls functions)
    """Decisions made for the participant of this name, found in the way that is best for each database.

    PostgreSQL has an index. SQLite writes whole pages, and in an index each participant is on another: there, each
    decision knows the one before it.
    """

    type = NullType()  # not Boolean, which SQLite would be asked to compare with 1
    inherit_cache = True


@compiles(made_for)
def _by_index(element: Any, compiler: Any, **how: Any) -> str:
    return f"decisions.participant = {compiler.process(element.clauses, **how)}"


@compiles(made_for, "sqlite")
def _one_by_one(element: Any, compiler: Any, **how: Any) -> str:
    """From the latest to the one before; UNION, so that rows which somebody has bent into a ring come to an end."""
    name = compiler.process(element.clauses, **how)
    return f"""decisions.rowid IN (
        WITH RECURSIVE made(place, previous) AS (
            SELECT one.rowid, one.previous FROM decisions AS one
            WHERE one.id = (SELECT latest FROM participants WHERE name = {name})
            UNION SELECT one.rowid, one.previous FROM made JOIN decisions AS one ON one.id = made.previous
        ) SELECT place FROM made)"""


def events_about(participant: "str | BindParameter[str]") -> ColumnElement[bool]:
    """Events about a participant, each found by an index."""
    made = decisions.c.id
    of = select(made).where(made_for(participant))
    first = select(cast(func.substr(made, 2), BigInteger)).where(made_for(participant))
    none = (events.c.participant == participant) & events.c.decision.is_(None)
    return events.c.seq.in_(first) | (following & events.c.decision.in_(of)) | none


requests = Table(
    "requests",
    metadata,
    Column("key", Text, primary_key=True),  # who, and the key of the caller's choosing
    Column("fingerprint", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("answer", LargeBinary, nullable=False),
)

recent = Table(  # likewise, before they are filed by key: see `answers`
    "recent",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("answer", LargeBinary, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    Column("created", BigInteger, nullable=False),
    Column("used", BigInteger),
    Column("revoked", BigInteger),
)

people = Table(
    "people",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("used", BigInteger),
    Column("revoked", BigInteger),
    Column("failures", Integer, nullable=False),
    Column("locked_until", BigInteger),
    Column("language", Text),
    Column("timezone", Text),
)

alerts = Table(
    "alerts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("level", Text, nullable=False),  # red, yellow, green
    Column("code", Text, nullable=False),
    Column("participant", Text),
    Column("text", Text, nullable=False),
    Column("raised", BigInteger, nullable=False),
    Column("seq", BigInteger),
    Column("cleared", BigInteger),
    Index("alerts_open", "cleared", "code", "participant"),
)

calls = Table(  # what staff do about nudges beside the record: who has taken one, and what is about to be recorded
    "calls",
    metadata,
    Column("decision", Text, primary_key=True),
    Column("participant", Text, nullable=False),
    Column("taken_by", Text),
    Column("taken_until", BigInteger),
    Column("tries", Integer, nullable=False),
    Column("tried", BigInteger),  # when last
    Column("outcome", Text),  # reached, unreachable, declined
    Column("done_by", Text),
    Column("done", BigInteger),
    Column("due", BigInteger),  # when the outcome goes on record, which can be undone until then; NULL once it has
    Column("changed", BigInteger, nullable=False),
    Index("calls_changed", "changed"),
    Index("calls_due", "due"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", Text, primary_key=True),  # of what the browser holds
    Column("person", Text, nullable=False),
    Column("link", Boolean, nullable=False),  # good for signing in once
    Column("form", Text, nullable=False),  # what every form must bring along
    Column("language", Text, nullable=False),
    Column("timezone", Text),
    Column("created", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Index("sessions_person", "person"),
)

shown = Table(  # nudges that somebody who can act on them has looked at, beside the record
    "shown",
    metadata,
    Column("decision", Text, primary_key=True),
    Column("shown", BigInteger, nullable=False),
)

expected = Table(  # what a study is expected to spend, worked out once for each study file
    "expected",
    metadata,
    Column("hash", Text, primary_key=True),  # of the study file
    Column("body", Text, nullable=False),
)
