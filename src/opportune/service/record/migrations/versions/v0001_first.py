"""The tables of the first version."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "access",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("participant", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("access_participant", "access", ["participant", "id"], unique=False)
    op.create_index("access_who", "access", ["who", "id"], unique=False)
    op.create_table(
        "alerts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("participant", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("raised", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("cleared", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("alerts_open", "alerts", ["cleared", "code", "participant"], unique=False)
    op.create_table(
        "anchors",
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("day"),
    )
    op.create_table(
        "attempts",
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("locked_until", sa.BigInteger(), nullable=True),
        sa.Column("succeeded", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("person", "place"),
    )
    op.create_table(
        "calls",
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("participant", sa.Text(), nullable=False),
        sa.Column("taken_by", sa.Text(), nullable=True),
        sa.Column("taken_until", sa.BigInteger(), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("tried", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("done_by", sa.Text(), nullable=True),
        sa.Column("done", sa.BigInteger(), nullable=True),
        sa.Column("due", sa.BigInteger(), nullable=True),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("decision"),
    )
    op.create_index("calls_changed", "calls", ["changed"], unique=False)
    op.create_index("calls_due", "calls", ["due"], unique=False)
    op.create_table(
        "decisions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("participant", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("happened", sa.BigInteger(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("sensed", sa.Text(), nullable=False),
        sa.Column("reported", sa.Text(), nullable=True),
        sa.Column("reported_first", sa.Text(), nullable=True),
        sa.Column("reported_corrected", sa.Text(), nullable=True),
        sa.Column("available", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("nudge", sa.Boolean(), nullable=False),
        sa.Column("probability", sa.Float(), nullable=False),
        sa.Column("coin", sa.Float(), nullable=False),
        sa.Column("gap", sa.Float(), nullable=False),
        sa.Column("price", sa.Float(), nullable=False),
        sa.Column("disagreement", sa.Float(), nullable=False),
        sa.Column("tolerance", sa.Float(), nullable=False),
        sa.Column("fresh_action", sa.Text(), nullable=False),
        sa.Column("stale_action", sa.Text(), nullable=False),
        sa.Column("budget_before", sa.Float(), nullable=True),
        sa.Column("budget_left", sa.Float(), nullable=True),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("eligible", sa.Boolean(), nullable=False),
        sa.Column("ineligible_reason", sa.Text(), nullable=True),
        sa.Column("expires", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("outcome_corrected", sa.Text(), nullable=True),
        sa.Column("settled", sa.BigInteger(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("revealed", sa.Boolean(), nullable=False),
        sa.Column("offline", sa.Boolean(), nullable=False),
        sa.Column("answered_late", sa.BigInteger(), nullable=True),
        sa.Column("seen", sa.Boolean(), nullable=False),
        sa.Column("unanswered", sa.Boolean(), nullable=False),
        sa.Column("reward_status", sa.Text(), nullable=False),
        sa.Column("reward", sa.Float(), nullable=True),
        sa.Column("reward_received", sa.BigInteger(), nullable=True),
        sa.Column("reward_first", sa.Float(), nullable=True),
        sa.Column("reward_changes", sa.Integer(), nullable=False),
        sa.Column("reward_due", sa.BigInteger(), nullable=True),
        sa.Column("features", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("participant", "step", name="decisions_step"),
    )
    op.create_index(
        "decisions_due",
        "decisions",
        ["reward_due", "happened", "participant"],
        unique=False,
        sqlite_where=sa.text("reward_due IS NOT NULL"),
        postgresql_where=sa.text("reward_due IS NOT NULL"),
    )
    op.create_index(
        "decisions_nudged",
        "decisions",
        ["settled"],
        unique=False,
        sqlite_where=sa.text("nudge = 1"),
        postgresql_where=sa.text("nudge"),
    )
    op.create_index(
        "decisions_open",
        "decisions",
        ["expires", "id"],
        unique=False,
        sqlite_where=sa.text("status = 'nudge'"),
        postgresql_where=sa.text("status = 'nudge'"),
    )
    op.create_table(
        "escalations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("participant", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("variable", sa.Text(), nullable=True),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("raised", sa.BigInteger(), nullable=False),
        sa.Column("acknowledged", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("escalations_open", "escalations", ["acknowledged", "id"], unique=False)
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("participant", sa.Text(), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("events_decision", "events", ["decision"], unique=False)
    op.create_index("events_participant", "events", ["participant", "seq"], unique=False)
    op.create_index(
        "events_skipped",
        "events",
        ["seq"],
        unique=False,
        sqlite_where=sa.text("kind = 'skipped'"),
        postgresql_where=sa.text("kind = 'skipped'"),
    )
    op.create_table(
        "forecasts",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_table(
        "keys",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=True),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.Column("suspended", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("hash"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=True),
        sa.Column("delivered", sa.BigInteger(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("outbox_due", "outbox", ["due"], unique=False)
    op.create_table(
        "participants",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("next_timezone", sa.Text(), nullable=True),
        sa.Column("next_from", sa.Date(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("enrolled", sa.BigInteger(), nullable=False),
        sa.Column("began", sa.Date(), nullable=False),
        sa.Column("arm", sa.Text(), nullable=False),
        sa.Column("member", sa.Integer(), nullable=False),
        sa.Column("stratum", sa.Integer(), nullable=False),
        sa.Column("baseline", sa.Text(), nullable=True),
        sa.Column("calls", sa.Boolean(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("open_decision", sa.Text(), nullable=True),
        sa.Column("last_decided", sa.BigInteger(), nullable=True),
        sa.Column("last_reveal", sa.BigInteger(), nullable=True),
        sa.Column("amount", sa.Float(), nullable=True),
        sa.Column("hard", sa.Integer(), nullable=False),
        sa.Column("spent", sa.Float(), nullable=False),
        sa.Column("nudges", sa.Integer(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "(amount IS NULL OR (spent <= amount + 1e-06 AND (hard = 0 OR nudges <= amount))) AND spent >= 0 AND nudges >= 0",
            name="participants_budget",
        ),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("number"),
    )
    op.create_table(
        "people",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=True),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.Column("suspended", sa.BigInteger(), nullable=True),
        sa.Column("language", sa.Text(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=True),
        sa.Column("totp", sa.Text(), nullable=True),
        sa.Column("totp_since", sa.BigInteger(), nullable=True),
        sa.Column("totp_step", sa.BigInteger(), nullable=True),
        sa.Column("recovery", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "requests",
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("caller", "key"),
    )
    op.create_table(
        "secret",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("encrypted", sa.Boolean(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("id = 1", name="secret_one"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("timezone", sa.Text(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("confirmed", sa.BigInteger(), nullable=False),
        sa.Column("watched", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index("sessions_person", "sessions", ["person"], unique=False)
    op.create_table(
        "study",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("rehearsal", sa.Boolean(), nullable=False),
        sa.Column("algorithm", sa.Integer(), nullable=False),
        sa.Column("moved", sa.Text(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("launched", sa.BigInteger(), nullable=False),
        sa.Column("enrolled", sa.Integer(), nullable=False),
        sa.Column("amendments", sa.Integer(), nullable=False),
        sa.Column("pooled", sa.BigInteger()),
        sa.Column("amount", sa.Float(), nullable=True),
        sa.Column("hard", sa.Integer(), nullable=False),
        sa.Column("spent", sa.Float(), nullable=False),
        sa.Column("nudges", sa.Integer(), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("shared", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "(amount IS NULL OR (spent <= amount + 1e-06 AND (hard = 0 OR nudges <= amount))) AND spent >= 0 AND nudges >= 0",
            name="study_budget",
        ),
        sa.CheckConstraint("id = 1", name="study_one"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "tokens",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("participant", sa.Text(), nullable=False),
        sa.Column("refreshes", sa.Boolean(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index("tokens_participant", "tokens", ["participant"], unique=False)
    op.create_table(
        "viewed",
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("decision"),
    )
