"""Every key of a TOML file is found on the line where it stands, however the file is written."""

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_files import BASE, EXAMPLE

from opportune.study.lines import key_lines

TRICKY = (
    '''
top = """ [not.a.table]
key = "no key" # no comment \\""" still ""quoted"""""
dotted.a.b = 1; dotted."c d" = 2
'''.replace("; ", "\n")
    + """
list = [ # comment with ] and "
  "a ] b", 'c # d',

  { x = 1, "y.z" = [1, 2] },
]
lit = '''
[[also.not]]
'''
[ table . "sub.table" ]
when = 1979-05-27 07:32:00 # a date
[[array]]
k = 1
[array.inner]
k = 2
[[array]]
k = 3
[[array.deep]]
n.m = 'C:\\'
[[array.deep]]
n = "\\\\"
"""
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in parsed TOML."""
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in pairs for place in [(*at, key), *places(inner, (*at, key))]]


@pytest.mark.parametrize("text", [BASE, EXAMPLE, TRICKY])
def test_every_key_has_a_line(text: str) -> None:
    """Every place that tomllib finds has a line, no other has, and the key stands on it."""
    lines = key_lines(text)
    assert set(lines) == set(places(tomllib.loads(text)))
    for place, line in lines.items():
        if isinstance(place[-1], str):
            assert place[-1] in text.splitlines()[line - 1]


def test_lines_in_tricky_places() -> None:
    """Strings, comments, dotted keys, inline tables and nested arrays of tables do not mislead the count."""
    lines = key_lines(TRICKY)
    assert lines["dotted", "c d"] == 5
    assert lines["list", 2, "y.z", 1] == 10
    assert lines["table", "sub.table", "when"] == 16
    assert lines["array", 0, "inner", "k"] == 20
    assert lines["array", 1, "deep", 0, "n", "m"] == 24
    assert lines["array", 1, "deep", 1, "n"] == 26


TOML_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=8)


@given(st.lists(st.tuples(st.text("abc_-", min_size=1, max_size=3), TOML_TEXT, st.booleans()), max_size=8))
@settings(deadline=None)
def test_lines_of_any_strings(entries: list[tuple[str, str, bool]]) -> None:
    """Whatever texts hold, a key is found on the line it was written to."""
    rows, expected = [], {}
    for i, (key, value, in_list) in enumerate(entries):
        quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        rows.append(f"{key}{i} = " + (f"[{quoted}, {quoted}] # {value}" if in_list else quoted))
        expected[f"{key}{i}",] = i + 1
    lines = key_lines("\n".join(rows))
    assert {place: line for place, line in lines.items() if len(place) == 1} == expected
