"""Less is written with a decision: what it changes of a state, and its answer where the others end."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Nothing has changed yet: states are stored whole, and all answers are filed."""
    op.add_column("participants", sa.Column("changes", sa.LargeBinary))
    op.create_table(
        "recent",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("answer", sa.LargeBinary, nullable=False),
    )
