"""Less is written with a decision: what it changes of a state, its answer where the others end, one index less."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Nothing has changed yet: states are stored whole, and all answers are filed."""
    following, none = sa.text("kind <> 'proposed'"), sa.text("decision IS NULL")
    op.drop_index("events_participant", "events")
    op.create_index("events_participant", "events", ["participant", "seq"], sqlite_where=none, postgresql_where=none)
    op.create_index("events_decision", "events", ["decision"], sqlite_where=following, postgresql_where=following)
    op.add_column("participants", sa.Column("changes", sa.LargeBinary))
    op.create_table(
        "recent",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("answer", sa.LargeBinary, nullable=False),
    )
