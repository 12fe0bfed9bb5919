"""Indexes that cost a decision less: of what is still to come alone, and in the order in which decisions come."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Put them in place of those that held every decision."""
    nudge, due = sa.text("status = 'nudge'"), sa.text("reward_due IS NOT NULL")
    for name in ("decisions_due", "decisions_open", "decisions_unrewarded"):
        op.drop_index(name, "decisions")
    if op.get_context().dialect.name == "sqlite":
        op.drop_index("decisions_seq", "decisions")
    op.create_index("decisions_due", "decisions", ["reward_due"], sqlite_where=due, postgresql_where=due)
    op.create_index("decisions_open", "decisions", ["expires", "id"], sqlite_where=nudge, postgresql_where=nudge)
    op.create_index(
        "decisions_unrewarded", "decisions", ["happened", "participant"], sqlite_where=due, postgresql_where=due
    )
