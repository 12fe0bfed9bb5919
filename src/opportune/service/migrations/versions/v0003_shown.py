"""Which nudges somebody has looked at."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the table of nudges that were shown."""
    op.create_table(
        "shown",
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("shown", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("decision"),
    )
