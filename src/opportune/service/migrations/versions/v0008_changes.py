"""What a decision changes of a participant's state stands by itself: the whole is written seldom."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Nothing has changed yet: states are stored whole."""
    op.add_column("participants", sa.Column("changes", sa.LargeBinary))
