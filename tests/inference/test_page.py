"""The page on analysis prints what its code prints."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "analysis.md"


def test_the_table_on_the_page_is_what_its_code_prints() -> None:
    """The first block of code gives the first block of text, to the last digit."""
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (first, code), (second, text) = blocks[:2]
    assert (first, second) == ("python", "text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})
    assert printed.getvalue() == text
