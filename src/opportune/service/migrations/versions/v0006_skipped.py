"""An index for rewards that were given up, which are looked for every minute among all events."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add it."""
    skipped = sa.text("kind = 'skipped'")
    op.create_index("events_skipped", "events", ["seq"], sqlite_where=skipped, postgresql_where=skipped)
