"""What was told of an earlier step in parts stands in its row, not in memory alone until it is complete."""

from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Write what the record says was told of steps that no reveal has uncovered yet."""
    connection = op.get_bind()
    rows = connection.execute(sa.text("SELECT id, participant, step, seq, reported FROM decisions WHERE NOT seen"))
    unseen = {(row.participant, row.step): row for row in rows}
    told: dict[tuple[str, int], tuple[int, dict[str, Any]]] = {}
    events = sa.text(
        "SELECT seq, participant, body FROM events WHERE kind = 'settled' AND body LIKE :told ORDER BY seq"
    )
    for event in connection.execute(events, {"told": '%"earlier":{%'}):
        for number, values in (msgspec.json.decode(event.body)["given"].get("earlier") or {}).items():
            place = (event.participant, int(number))
            if place in unseen:
                told[place] = event.seq, {**told.get(place, (0, {}))[1], **values}
    change = sa.text("UPDATE decisions SET reported = :reported, seq = :seq WHERE id = :id")
    for place, (seq, values) in told.items():
        row = unseen[place]
        known = {**(msgspec.json.decode(row.reported) if row.reported is not None else {}), **values}
        text = msgspec.json.encode(known).decode()
        connection.execute(change, {"id": row.id, "reported": text, "seq": max(seq, row.seq)})
