"""Each decision knows the one before, instead of an index by participant in SQLite; one index of what is due."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_INDEXES = ("decisions_due", "decisions_open", "decisions_nudged", "decisions_unrewarded")


def upgrade() -> None:
    """Put the decisions that there are in the order of their steps."""
    op.add_column("participants", sa.Column("latest", sa.Text))
    op.add_column("decisions", sa.Column("previous", sa.Text))
    op.execute(
        "UPDATE decisions SET previous = steps.previous FROM ("
        "SELECT id, LAG(id) OVER (PARTITION BY participant ORDER BY step) AS previous FROM decisions"
        ") AS steps WHERE steps.id = decisions.id"
    )
    op.execute(
        "UPDATE participants SET latest = steps.id FROM ("
        "SELECT participant, id, ROW_NUMBER() OVER (PARTITION BY participant ORDER BY step DESC) AS place FROM decisions"
        ") AS steps WHERE steps.participant = participants.name AND steps.place = 1"
    )
    for name in _INDEXES:
        op.drop_index(name, "decisions")
    if op.get_context().dialect.name == "sqlite":
        with op.batch_alter_table("decisions", recreate="always") as table:
            table.drop_constraint("decisions_step", type_="unique")
    nudge, due = sa.text("status = 'nudge'"), sa.text("reward_due IS NOT NULL")
    columns = ["reward_due", "happened", "participant"]
    op.create_index("decisions_due", "decisions", columns, sqlite_where=due, postgresql_where=due)
    op.create_index("decisions_open", "decisions", ["expires", "id"], sqlite_where=nudge, postgresql_where=nudge)
    one, yes = sa.text("nudge = 1"), sa.text("nudge")
    op.create_index("decisions_nudged", "decisions", ["settled"], sqlite_where=one, postgresql_where=yes)
