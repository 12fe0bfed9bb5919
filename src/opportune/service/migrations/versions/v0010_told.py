"""What was told of an earlier step in parts stands in its row, not in memory alone until it is complete."""

from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_Place = tuple[str, int]  # whose decision point, and which
_UNSEEN = sa.text("SELECT id, participant, step, seq FROM decisions WHERE NOT seen")
_TELLING = sa.text("SELECT participant, body FROM events WHERE kind = 'settled' AND body LIKE :told")
_RECORD = sa.text(
    "SELECT seq, kind, participant, decision, body FROM events WHERE participant IN :names "
    "AND kind IN ('proposed', 'settled', 'answered late') ORDER BY seq"
).bindparams(sa.bindparam("names", expanding=True))
_CHANGE = sa.text("UPDATE decisions SET reported = :reported, seq = :seq WHERE id = :id")


def upgrade() -> None:
    """Write what the record says was told of steps that no reveal has uncovered yet, in the order in which it was."""
    connection = op.get_bind()
    unseen = {(row.participant, row.step): row for row in connection.execute(_UNSEEN)}
    told = connection.execute(_TELLING, {"told": '%"earlier":{%'})
    wanted = {place for event in told for place, _ in _earlier(event)} & unseen.keys()
    if not wanted:
        return
    known: dict[_Place, dict[str, Any]] = {}
    changed: dict[_Place, int] = {}
    by_fallback = set()  # decisions: what is told with them is not used
    for event in connection.execute(_RECORD, {"names": sorted({name for name, _ in wanted})}).all():
        body = msgspec.json.decode(event.body)
        if body["given"].get("mode") == "fallback":
            by_fallback.add(event.decision)
        own = ((event.participant, body["step"]), body["given"].get("reported"))
        earlier = list(_earlier(event))
        changed |= {place: event.seq for place, _ in earlier}
        if event.decision not in by_fallback:
            for place, values in (*earlier, own):
                if values is not None:
                    known[place] = {**known.get(place, {}), **values}
    for place in wanted:
        row, values = unseen[place], known.get(place)
        text = None if values is None else msgspec.json.encode(values).decode()
        connection.execute(_CHANGE, {"id": row.id, "reported": text, "seq": max(row.seq, changed[place])})


def _earlier(event: Any) -> Iterator[tuple[_Place, dict[str, Any]]]:
    """What an event tells of earlier decision points."""
    for number, values in (msgspec.json.decode(event.body)["given"].get("earlier") or {}).items():
        yield (event.participant, int(number)), values
