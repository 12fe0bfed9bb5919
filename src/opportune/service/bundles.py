"""What a phone can show while it is offline."""

import datetime as dt
from typing import ClassVar

from opportune.service.commands import Answered, Command
from opportune.service.ledger import Ledger


class FetchBundle(Command, kw_only=True):
    """A participant's bundle; nothing is written."""

    records: ClassVar[bool] = False

    participant: str

    def about(self) -> tuple[str | None, str | None]:
        """The participant."""
        return self.participant, None

    def run(self, ledger: Ledger) -> Answered:
        """What to show at the coming decision points, as of now."""
        person = ledger.person(self.participant)
        made = dt.datetime.fromtimestamp(self.received / 1e6, dt.UTC)
        return 200, {"participant": person.name, **person.agent.bundle(made)}
