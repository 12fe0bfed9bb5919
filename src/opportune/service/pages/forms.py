"""The forms of the pages: each field is checked when it is read, and a form must come from a page of the session."""

import datetime as dt
import hashlib
import hmac
import math
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from litestar.datastructures import FormMultiDict, UploadFile
from litestar.exceptions import ClientException

from opportune.errors import InputError
from opportune.service.accounts.sessions import Session
from opportune.service.api.requests import SESSION
from opportune.service.pages.shared import Asked, View
from opportune.service.pages.texts import Texts
from opportune.service.problems import Refused
from opportune.service.state import clock

MOST_TEXT = 2000
MOST_SECRET = 257
"""One more character than a password may have, so that a longer one does not match when cut."""
_NUMBER = re.compile(r"[+-]?\d{1,15}([.,]\d{1,30})?")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
"""1,200 means 1200 in English and 1.2 in German; 1.200 is the other way round."""


class Wrong(Refused):
    """A field of a form has a value that cannot be used.

    Args:
        field: the name of the field.
        cause: a key of `refusals.causes`, whose sentence says what to do.
        values: numbers, dates and texts for the sentence.

    """

    def __init__(self, field: str, cause: str, /, **values: Any) -> None:
        expected = ", ".join(f"{name} {value}" for name, value in values.items())
        super().__init__("invalid", f"{field}: {cause}{f' ({expected})' if expected else ''}")
        self.field, self.cause, self.values = field, cause, values


class Form:
    """The fields of a sent form; each is checked when it is read."""

    def __init__(self, fields: FormMultiDict) -> None:
        self.sent = {name: str(value) for name, value in fields.multi_items() if not isinstance(value, UploadFile)}

    def text(self, name: str, *, most: int = MOST_TEXT) -> str:
        """A text; empty if it is missing."""
        value = self.sent.get(name, "").replace("\r\n", "\n").strip()
        if len(value) > most:
            raise Wrong(name, "long", n=len(value), most=most)
        if any(not c.isprintable() and c != "\n" for c in value):
            raise Wrong(name, "unprintable")
        return value

    def required(self, name: str, *, most: int = MOST_TEXT) -> str:
        """A text that must not be empty."""
        value = self.text(name, most=most)
        if not value:
            raise Wrong(name, "empty")
        return value

    def number(self, name: str, t: Texts, *, low: float = -math.inf, high: float = math.inf) -> float:
        """A number within bounds, with a decimal point or comma; numbers such as 1,200 are refused where ambiguous.

        The fields are text fields, because <input type="number"> drops a comma: 6,5 becomes 65.
        """
        value = self.required(name, most=40)
        grouped = _GROUPED.fullmatch(value) and value[-4] != t.decimal_mark
        if grouped or not _NUMBER.fullmatch(value):
            raise Wrong(name, "number", example=12.5)
        number = float(value.replace(",", "."))
        if not low <= number <= high:
            raise Wrong(name, "range", low=low, high=high)
        return number

    def choice(self, name: str, options: Iterable[str]) -> str:
        """One of a few options."""
        value = self.required(name)
        if value not in options:
            raise Wrong(name, "choice")
        return value

    def date(self, name: str) -> dt.date | None:
        """A date as browsers send it; None if it is empty."""
        value = self.text(name, most=10)
        try:
            return dt.date.fromisoformat(value) if value else None
        except ValueError:
            raise Wrong(name, "date") from None

    def zone(self, name: str) -> str:
        """The IANA name of a time zone; empty if it is missing."""
        value = self.text(name, most=64)
        try:
            if value:
                clock.check_zone(value)
        except InputError:
            raise Wrong(name, "zone") from None
        return value

    def secret(self, name: str) -> str:
        """A password exactly as typed."""
        return self.sent.get(name, "")[:MOST_SECRET]

    @property
    def fingerprint(self) -> str:
        """A hash of the fields, equal for equal submissions."""
        content = "\n".join(f"{name}={value}" for name, value in sorted(self.sent.items()) if name != "form")
        return hashlib.sha256(content.encode()).hexdigest()


async def raw_form(request: Asked) -> Form:
    """The form of a request, which must come from this site."""
    origin = request.headers.get("origin")  # compare only the host: a proxy may add HTTPS
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise Refused("forbidden", "the form was sent from another site")
    try:
        return Form(await request.form())
    except (ClientException, ValueError):
        raise Refused("malformed", "the form cannot be read") from None


async def form_of(request: Asked) -> Form:
    """The form of a request, which must contain the token of this session."""
    form = await raw_form(request)
    session: Session = request.scope[SESSION]  # type: ignore[literal-required]
    if not hmac.compare_digest(form.text("form", most=100).encode(), session.form.encode()):
        raise Refused("forbidden", "the form does not belong to this session")
    return form


def command_fields(view: View, form: Form) -> dict[str, Any]:
    """The author, time and key of a command; the key makes a form that is sent twice count once."""
    key = form.required("once", most=64)
    return {"who": view.who, "received": view.now, "key": f"page:{key}", "fingerprint": form.fingerprint}
