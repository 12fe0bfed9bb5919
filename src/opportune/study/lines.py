"""The line of every table, key and list entry in a study file, which tomllib does not report."""

import bisect
import re
import tomllib

Place = tuple[str | int, ...]
"""A place in a file: ("policies", 1, "scale") is `scale` of the second [[policies]]."""


def key_lines(text: str) -> dict[Place, int]:
    """The line of every table, key and list entry in a text that tomllib accepts."""
    return _Scanner(text).scan()


class _Scanner:
    """Scans valid TOML and notes the line on which each place begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.ends = [end.start() for end in re.finditer("\n", text)]
        self.lines: dict[Place, int] = {}
        self.tables_in: dict[Place, int] = {}  # the number of [[tables]] of an array so far

    def scan(self) -> dict[Place, int]:
        table: Place = ()
        self._skip()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip()
        return self.lines

    def _skip(self, also: str = "") -> None:
        """Skip blanks, line breaks and comments."""
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at] in " \t\r\n" + also:
                self.at += 1
            else:
                return

    def _note(self, place: Place, at: int) -> None:
        self.lines.setdefault(place, bisect.bisect_left(self.ends, at) + 1)

    def _header(self) -> Place:
        """Read [a.b] or [[a.b]]; return the place of the table that it opens."""
        begin = self.at
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        key = self._key()
        self.at += 2 if array else 1
        place: Place = ()
        for i, part in enumerate(key):
            place = (*place, part)
            self._note(place, begin)
            if array and i == len(key) - 1:
                self.tables_in[place] = self.tables_in.get(place, 0) + 1
            if place in self.tables_in:
                place = (*place, self.tables_in[place] - 1)
                self._note(place, begin)
        return place

    def _key(self) -> list[str]:
        """Read a key with its dots, up to the sign after it."""
        parts: list[str] = []
        while True:
            self._skip()
            if self.text[self.at] in "\"'":
                begin = self.at
                self._string()
                parts.append(tomllib.loads(f"key = {self.text[begin : self.at]}")["key"])
            else:
                word = re.compile(r"[A-Za-z0-9_-]+").match(self.text, self.at)
                assert word is not None
                parts.append(word[0])
                self.at = word.end()
            self._skip()
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def _pair(self, table: Place) -> None:
        """Read a key with its value; keys inside the value are noted too."""
        begin = self.at
        key = self._key()
        for i in range(len(key)):
            self._note((*table, *key[: i + 1]), begin)
        self.at += 1
        self._value((*table, *key))

    def _value(self, place: Place) -> None:
        self._skip()
        sign = self.text[self.at]
        if sign in "\"'":
            self._string()
        elif sign in "[{":
            self.at += 1
            self._skip()
            count = 0
            while self.text[self.at] not in "]}":
                if sign == "[":
                    self._note((*place, count), self.at)
                    self._value((*place, count))
                else:
                    self._pair(place)
                count += 1
                self._skip(",")
            self.at += 1
        else:
            word = re.compile(r"[^,\]}#\n]+").match(self.text, self.at)
            assert word is not None
            self.at = word.end()

    def _string(self) -> None:
        """Skip a string of any of the four kinds."""
        quote = self.text[self.at]
        mark = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(mark)
        while not self.text.startswith(mark, self.at):
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(mark)
        while len(mark) == 3 and self.text.startswith(quote, self.at):  # the text itself may end with up to two quotes
            self.at += 1
