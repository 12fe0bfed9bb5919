"""Indexes for what the staff's pages ask, and what people prefer."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add them."""
    due = sa.text("reward_due IS NOT NULL")
    op.create_index(
        "decisions_nudged",
        "decisions",
        ["settled"],
        sqlite_where=sa.text("nudge = 1"),
        postgresql_where=sa.text("nudge"),
    )
    op.create_index(
        "decisions_unrewarded", "decisions", ["participant", "happened"], sqlite_where=due, postgresql_where=due
    )
    op.add_column("people", sa.Column("language", sa.Text(), nullable=True))
    op.add_column("people", sa.Column("timezone", sa.Text(), nullable=True))
