"""Texts in the reader's language: English in the code, other languages in `locale/LANGUAGE.po`.

A site can add a language: OPPORTUNE_LOCALE names the folder that contains its LANGUAGE.po.
"""

import datetime as dt
import io
import os
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime, format_skeleton, format_time
from babel.messages.mofile import write_mo
from babel.messages.pofile import PoFileError, read_po
from babel.numbers import format_decimal, get_decimal_symbol
from babel.support import Translations

from opportune.errors import InputError
from opportune.service.state import clock

FOLDER = Path(__file__).parent / "locale"
VARIABLE = "OPPORTUNE_LOCALE"
ENGLISH = "en"


def _files() -> dict[str, Path]:
    folders = [FOLDER, *([Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else [])]
    return {file.stem: file for folder in folders for file in sorted(folder.glob("*.po"))}


@cache
def languages() -> dict[str, str]:
    """The available languages, each by its own name."""
    names = {ENGLISH: "English"}
    for code in _files():
        try:
            names[code] = str(Locale.parse(code).get_display_name(code)).capitalize()
        except (UnknownLocaleError, ValueError):
            raise InputError(f"{code}.po is no catalogue of a language; expected a name such as fr.po") from None
    return names


def preferred(accepted: str) -> str:
    """The first available language in a browser's list; English if there is none."""
    for part in accepted.split(",")[:20]:
        wanted = part.split(";")[0].strip().lower().replace("-", "_")
        known = {code.lower(): code for code in languages()}
        for code in (wanted, wanted.split("_")[0]):
            if code in known:
                return known[code]
    return ENGLISH


class Texts:
    """Texts, times and numbers in one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.locale = Locale.parse(language if language != ENGLISH else "en_GB")  # day before month, 24 hours
        self.translations = _translations(language)
        self.decimal_mark = str(get_decimal_symbol(self.locale))

    def gettext(self, text: str, /, **values: Any) -> str:
        """The translation of a text, with values filled in."""
        found = self.translations.ugettext(text)
        return found % values if values else found

    def ngettext(self, one: str, many: str, number: float, /, **values: Any) -> str:
        """The translation of a text that depends on a number."""
        found = self.translations.ungettext(one, many, int(number))
        return found % {"num": self.number(number), **values}

    def number(self, value: float, digits: int | None = None) -> str:
        """A number for people, with a given or a suitable number of decimals."""
        if digits is not None:
            form = "#,##0." + "0" * digits if digits else "#,##0"
            return str(format_decimal(value, format=form, locale=self.locale))
        if value and abs(value) < 0.01:
            return str(format_decimal(value, format="0.00E0", locale=self.locale))
        rounded = round(value, 2) if abs(value) < 10 else round(value, 1)
        return str(format_decimal(rounded, locale=self.locale))

    def editable(self, value: float) -> str:
        """A number for a field: all digits, without separators for thousands."""
        plain = f"{Decimal(repr(value)):f}".removesuffix(".0")
        return plain.replace(".", self.decimal_mark)

    def time(self, moment: int, timezone: str) -> str:
        """A time of day."""
        return _time(_minute(moment, timezone), self.locale)

    def date(self, moment: int, timezone: str) -> str:
        """A day."""
        return self.day(clock.local(moment, timezone).date())

    def day(self, date: dt.date) -> str:
        """A date, in words."""
        return _day(date, self.locale)

    def weekday(self, moment: int, timezone: str) -> str:
        """The day of the week."""
        return str(format_date(clock.local(moment, timezone).date(), "EEEE", locale=self.locale))

    def weekday_of(self, date: dt.date) -> str:
        """The day of the week of a date."""
        return str(format_date(date, "EEEE", locale=self.locale))

    def moment(self, moment: int, timezone: str) -> str:
        """A date and a time."""
        return _moment(_minute(moment, timezone), self.locale)

    def exact(self, moment: int, timezone: str) -> str:
        """A date and a time to the second, with the year and the offset."""
        there = clock.local(moment, timezone)
        return f"{_day(there.date(), self.locale)}, {format_datetime(there, 'HH:mm:ss ZZZZZ', locale=self.locale)}"

    def zone(self, timezone: str) -> str:
        """The place of a time zone."""
        return timezone.rsplit("/", maxsplit=1)[-1].replace("_", " ")


def _minute(moment: int, timezone: str) -> dt.datetime:
    return clock.local(moment, timezone).replace(second=0, microsecond=0, tzinfo=None)


# Cached: a long list repeats the same times, and formatting is slow.


@lru_cache(maxsize=4096)
def _time(minute: dt.datetime, locale: Locale) -> str:
    return str(format_time(minute, "HH:mm", locale=locale))


@lru_cache(maxsize=4096)
def _moment(minute: dt.datetime, locale: Locale) -> str:
    return f"{format_skeleton('MMMd', minute, locale=locale)}, {_time(minute, locale)}"


@lru_cache(maxsize=4096)
def _day(date: dt.date, locale: Locale) -> str:
    return str(format_skeleton("yMMMd", date, locale=locale))


@cache
def texts(language: str) -> Texts:
    """The texts of a language; those of English if it is not available."""
    return Texts(language if language in languages() else ENGLISH)


def _translations(language: str) -> Translations:
    file = _files().get(language)
    if file is None:
        return Translations()
    try:
        catalogue = read_po(io.StringIO(file.read_text(encoding="utf-8")), locale=language, abort_invalid=True)
    except (OSError, UnicodeDecodeError, PoFileError, ValueError) as error:
        raise InputError(f"{file.name} cannot be read as a catalogue: {error}") from None
    compiled = io.BytesIO()
    write_mo(compiled, catalogue)
    compiled.seek(0)
    return Translations(compiled)
