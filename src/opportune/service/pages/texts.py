"""The catalogue of texts: English in the code, other languages in `locale/LANGUAGE.po`.

A site adds a language by a file of its own: OPPORTUNE_LOCALE names the folder in which LANGUAGE.po lies.
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
    """The languages that there are, each by its own name."""
    names = {ENGLISH: "English"}
    for code in _files():
        try:
            names[code] = str(Locale.parse(code).get_display_name(code)).capitalize()
        except (UnknownLocaleError, ValueError):
            raise InputError(f"{code}.po is no catalogue of a language; expected a name such as fr.po") from None
    return names


def preferred(accepted: str) -> str:
    """The first language of a browser's list that there is; English if none."""
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
        """A text, with values in place of names."""
        found = self.translations.ugettext(text)
        return found % values if values else found

    def ngettext(self, one: str, many: str, number: float, /, **values: Any) -> str:
        """A text that depends on a number."""
        found = self.translations.ungettext(one, many, int(number))
        return found % {"num": self.number(number), **values}

    def number(self, value: float, digits: int | None = None) -> str:
        """A number for people: so many digits after the point, or few."""
        if digits is not None:
            form = "#,##0." + "0" * digits if digits else "#,##0"
            return str(format_decimal(value, format=form, locale=self.locale))
        if value and abs(value) < 0.01:
            return str(format_decimal(value, format="0.00E0", locale=self.locale))
        rounded = round(value, 2) if abs(value) < 10 else round(value, 1)
        return str(format_decimal(rounded, locale=self.locale))

    def editable(self, value: float) -> str:
        """A number as it stands in a field: every digit, without marks for thousands."""
        plain = f"{Decimal(repr(value)):f}".removesuffix(".0")
        return plain.replace(".", self.decimal_mark)

    def time(self, moment: int, timezone: str) -> str:
        """A time of day."""
        return _time(_minute(moment, timezone), self.locale)

    def date(self, moment: int, timezone: str) -> str:
        """A day."""
        return self.day(clock.local(moment, timezone).date())

    def day(self, date: dt.date) -> str:
        """A day, in words."""
        return _day(date, self.locale)

    def weekday(self, moment: int, timezone: str) -> str:
        """The day of the week."""
        return str(format_date(clock.local(moment, timezone).date(), "EEEE", locale=self.locale))

    def weekday_of(self, date: dt.date) -> str:
        """The day of the week of a date."""
        return str(format_date(date, "EEEE", locale=self.locale))

    def moment(self, moment: int, timezone: str) -> str:
        """A day and a time."""
        return _moment(_minute(moment, timezone), self.locale)

    def exact(self, moment: int, timezone: str) -> str:
        """A day and a time, to the second and with the year, as a record needs it."""
        there = clock.local(moment, timezone)
        return f"{_day(there.date(), self.locale)}, {format_datetime(there, 'HH:mm:ss ZZZZZ', locale=self.locale)}"

    def zone(self, timezone: str) -> str:
        """A time zone, as people call it: by the place."""
        return timezone.rsplit("/", maxsplit=1)[-1].replace("_", " ")


def _minute(moment: int, timezone: str) -> dt.datetime:
    return clock.local(moment, timezone).replace(second=0, microsecond=0, tzinfo=None)


# A long list has the same times again and again, and writing one takes a while.


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
    """The texts in a language; English where it has none."""
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
