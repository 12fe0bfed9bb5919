"""docs/coordinator.md: what it says of roles; tests/test_page_commands.py types its commands."""

import re

from test_docs import DOCS

PAGE = DOCS / "coordinator.md"


def test_what_it_says_of_roles_is_so() -> None:
    """The roles of its table are those that there are."""
    from opportune.service.accounts.keys import ROLES

    found = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(found) == sorted(ROLES)
