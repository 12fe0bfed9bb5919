"""The tables: the record of events, and tables derived from it because reading the record each time would be slow.

`events` is the truth. `study`, `participants` and `decisions` are the result of folding it, written in the same
transaction; `verify` folds it again and compares. `requests` holds the answers to requests, so that a retry gets the
same bytes. Times are microseconds since 1970, UTC.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)

metadata = MetaData()
SPARE = 1e-6
"""Tolerance of the budget checks: spending is a sum of probabilities, which are rounded."""


def _within(prefix: str) -> CheckConstraint:
    """The budget invariant as a database check: spending never exceeds the amount, nor do nudges if it is hard."""
    rule = f"amount IS NULL OR (spent <= amount + {SPARE} AND (hard = 0 OR nudges <= amount))"
    return CheckConstraint(f"({rule}) AND spent >= 0 AND nudges >= 0", name=f"{prefix}_budget")


study = Table(
    "study",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rehearsal", Boolean, nullable=False),  # fixed at launch
    Column("algorithm", Integer, nullable=False),  # its version, fixed at launch
    Column("moved", Text),  # the database that the study was moved to
    Column("seq", BigInteger, nullable=False),  # the last event
    Column("head", Text, nullable=False),  # its hash
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False),  # of the study file in force
    Column("status", Text, nullable=False),  # open or closed
    Column("launched", BigInteger, nullable=False),
    Column("enrolled", Integer, nullable=False),
    Column("amendments", Integer, nullable=False),
    Column("pooled", BigInteger),  # when the pooled part was last updated; before that, the first enrolment
    Column("amount", Float),  # of the shared budget; NULL if each participant has a budget, or nobody
    Column("hard", Integer, nullable=False),
    Column("spent", Float, nullable=False),
    Column("nudges", Integer, nullable=False),
    Column("file", Text, nullable=False),
    Column("shared", LargeBinary, nullable=False),  # the shared model and budget, if any
    CheckConstraint("id = 1", name="study_one"),
    _within("study"),
)

secret = Table(  # the seed of the draws of a study with people: no endpoint, page or export reads it
    "secret",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("encrypted", Boolean, nullable=False),
    Column("content", LargeBinary, nullable=False),  # the seed and the salt of its commitment
    CheckConstraint("id = 1", name="secret_one"),
)

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
    Index("events_participant", "participant", "seq"),
    Index("events_decision", "decision"),
    Index("events_skipped", "seq", sqlite_where=text("kind = 'skipped'"), postgresql_where=text("kind = 'skipped'")),
)

participants = Table(
    "participants",
    metadata,
    Column("name", Text, primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("timezone", Text, nullable=False),
    Column("next_timezone", Text),  # from next_from on
    Column("next_from", Date),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Column("enrolled", BigInteger, nullable=False),
    Column("began", Date, nullable=False),  # the local date of enrolment, day 1
    Column("arm", Text, nullable=False),  # "" without arms
    Column("member", Integer, nullable=False),  # the participant's number within the arm
    Column("stratum", Integer, nullable=False),  # arms are balanced within each
    Column("baseline", Text),  # values given at enrolment, as JSON
    Column("calls", Boolean, nullable=False),  # whether the participant wants to be called
    Column("seq", BigInteger, nullable=False),  # the last event about the participant
    Column("step", Integer, nullable=False),
    Column("open_decision", Text),
    Column("last_decided", BigInteger),
    Column("last_reveal", BigInteger),
    Column("amount", Float),  # of the participant's own budget
    Column("hard", Integer, nullable=False),
    Column("spent", Float, nullable=False),
    Column("nudges", Integer, nullable=False),
    Column("state", LargeBinary, nullable=False),  # the agent's, after event `seq`
    _within("participants"),
)
PARTICIPANT = tuple(column for column in participants.c if column.name != "state")
"""The columns that pages and programs read: all but the state, which is long."""

# Partial indexes of what is still to come stay small: a decision that is over is not in them.
_OPEN = text("status = 'nudge'")
_UNREWARDED = text("reward_due IS NOT NULL")
_DUE = ("reward_due", "happened", "participant")  # all columns that queries for what is due need

decisions = Table(
    "decisions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("participant", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),  # the last event that changed it
    Column("day", Integer, nullable=False),
    Column("happened", BigInteger, nullable=False),
    Column("received", BigInteger, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("sensed", Text, nullable=False),
    Column("reported", Text),  # as the model used it
    Column("reported_first", Text),  # before any correction
    Column("reported_corrected", Text),  # for the analysis; NULL without a correction
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
    Column("eligible", Boolean, nullable=False),  # a nudge was possible here
    Column("ineligible_reason", Text),
    Column("expires", BigInteger),
    Column("status", Text, nullable=False),  # nudge or settled
    Column("outcome", Text),  # opened, answered, unanswered, none
    Column("outcome_corrected", Text),  # as staff corrected it later
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
    Column("reward_due", BigInteger),  # when waiting ends; NULL once it has arrived or was given up
    Column("features", Text, nullable=False),  # the study file in force: the first characters of its hash
    Column("version", Text, nullable=False),
    UniqueConstraint("participant", "step", name="decisions_step"),
    Index("decisions_due", *_DUE, sqlite_where=_UNREWARDED, postgresql_where=_UNREWARDED),
    Index("decisions_open", "expires", "id", sqlite_where=_OPEN, postgresql_where=_OPEN),
    Index("decisions_nudged", "settled", sqlite_where=text("nudge = 1"), postgresql_where=text("nudge")),
)

open_nudge = decisions.c.status == literal_column("'nudge'")
"""A nudge waits for an answer; a literal, not a parameter, so that databases use the index of open nudges."""

requests = Table(
    "requests",
    metadata,
    Column("caller", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # chosen by the caller
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
    Column("suspended", BigInteger),  # by a restored backup, until an admin readmits it
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
    Column("suspended", BigInteger),  # by a restored backup, until an admin readmits them
    Column("language", Text),
    Column("timezone", Text),
    Column("totp", Text),  # the secret of the second factor
    Column("totp_since", BigInteger),  # when it was confirmed; NULL while it is being set up
    Column("totp_step", BigInteger),  # of the last code used; a code is good once
    Column("recovery", Text),  # hashes of the recovery codes that are left
    Column("subject", Text),  # the person's identifier at the institution's sign-in
)

attempts = Table(  # to sign in, by person and place: guesses from elsewhere do not lock the person out
    "attempts",
    metadata,
    Column("person", Text, primary_key=True),
    Column("place", Text, primary_key=True),  # an address, a browser that signed in before, or anywhere
    Column("failures", Integer, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("locked_until", BigInteger),
    Column("succeeded", BigInteger),
)

tokens = Table(  # of participants' apps: each token gives access to one participant
    "tokens",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("participant", Text, nullable=False),
    Column("refreshes", Boolean, nullable=False),  # a refresh token, good only for making access tokens
    Column("parent", Text),  # the refresh token it was made with
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Index("tokens_participant", "participant"),
)

access = Table(  # who looked at what, outside the record
    "access",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("participant", Text),
    Index("access_who", "who", "id"),
    Index("access_participant", "participant", "id"),
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

calls = Table(  # staff's work on nudges, outside the record: who has taken one, and an outcome about to be recorded
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
    Column("due", BigInteger),  # when the outcome is recorded, and can be undone until then; NULL afterwards
    Column("changed", BigInteger, nullable=False),
    Index("calls_changed", "changed"),
    Index("calls_due", "due"),
)

escalations = Table(  # what staff must deal with at once, and who has done so
    "escalations",
    metadata,
    Column("id", Text, primary_key=True),  # the event that raised it, and its position within that event
    Column("seq", BigInteger, nullable=False),  # the last event that changed it
    Column("participant", Text, nullable=False),
    Column("kind", Text, nullable=False),  # value, adverse event or wrong person
    Column("variable", Text),
    Column("value", Text),  # as JSON
    Column("text", Text, nullable=False),  # what must be done, or what happened
    Column("raised", BigInteger, nullable=False),
    Column("acknowledged", BigInteger),
    Column("acknowledged_by", Text),
    Column("note", Text),  # what was done
    Index("escalations_open", "acknowledged", "id"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", Text, primary_key=True),  # of what the browser holds
    Column("person", Text, nullable=False),
    Column("purpose", Text, nullable=False),  # session, or the single use of an invitation
    Column("form", Text, nullable=False),  # the token that every form must send along
    Column("language", Text, nullable=False),
    Column("timezone", Text),
    Column("created", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("confirmed", BigInteger, nullable=False),  # when the person last proved who they are
    Column("watched", BigInteger),  # when the list of calls was last open in the browser
    Index("sessions_person", "person"),
)

viewed = Table(  # nudges that someone who can act on them has looked at, outside the record
    "viewed",
    metadata,
    Column("decision", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
)

forecasts = Table(  # the spending expected in a study, computed once per study file
    "forecasts",
    metadata,
    Column("hash", Text, primary_key=True),  # of the study file
    Column("body", Text, nullable=False),
)

outbox = Table(  # messages to be sent, written in the transaction of the event they report
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("channel", Text, nullable=False),  # webhook or mail
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due", BigInteger),  # the next attempt; NULL once it is delivered or given up
    Column("delivered", BigInteger),
    Column("failure", Text),  # why the last attempt failed
    Index("outbox_due", "due"),
)

anchors = Table(  # the end of the record, once a day: a record that was cut off later lacks it
    "anchors",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),  # since 1970, UTC
    Column("seq", BigInteger, nullable=False),
    Column("head", Text, nullable=False),
)
