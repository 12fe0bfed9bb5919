"""Refused forms: the page is shown again with the reason, in the reader's language, and with what was typed."""

import datetime as dt
import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from litestar import Response
from sqlalchemy.exc import SQLAlchemyError

from opportune.errors import OpportuneError
from opportune.service.pages.forms import Form, Wrong, form_of
from opportune.service.pages.shared import Asked, Page, Refusal, View, in_thread, view_of
from opportune.service.pages.texts import Texts
from opportune.service.problems import Refused

Handler = Callable[..., Awaitable[Response[Any]]]
ELSEWHERE = ("forbidden", "malformed", "not_found", "internal", "unauthenticated")
"""After these codes the form's page is not shown again: it may be forbidden or missing."""
_FIELDS = {"exists": "participant", "reward_differs": "reason"}
"""The field that a refusal concerns, by code."""


def sentences(t: Texts) -> dict[str, str]:
    """What to tell people about a refusal, by the problem's code."""
    _ = t.gettext
    return {
        "taken": _("Someone else has taken this call. Nothing was recorded."),
        "settled_already": _("This call is no longer needed, or its outcome is on record. Nothing was changed."),
        "not_settled": _("The call is still open: its outcome must be recorded first. Nothing was changed."),
        "exists": _("This name is in use already. Choose another. Nothing was changed."),
        "full": _("All planned participants are enrolled. Nothing was changed."),
        "not_active": _("The participant has left the study or completed it. If that is a mistake, correct it."),
        "reward_differs": _("Another result is on record. Give the reason why it is corrected."),
        "invalid": _("Something in the form cannot be used. Nothing was recorded."),
        "malformed": _("The form could not be read. Nothing was recorded."),
        "closed": _("The study is closed. Nothing was changed."),
        "forbidden": _("You are not allowed to do this, or this page has expired. Nothing was recorded."),
        "not_found": _("Page not found."),
        "method_not_allowed": _("Page not found."),  # the address of a form
        "key_reused": _("This form was sent before, with other content. Check it and send it again."),
        "too_many": _("Too many attempts. Wait a few minutes."),
        "unavailable": _("Nothing can be stored at the moment. What you entered was not recorded; try again soon."),
        "internal": _("Something went wrong. What you entered was not recorded. Tell whoever looks after the service."),
    }


def causes(t: Texts) -> dict[str, str]:
    """What to do about a field, by cause."""
    _ = t.gettext
    return {
        "empty": _("Fill in this field."),
        "long": _("Shorten this text: it has %(n)s characters, and at most %(most)s are possible."),
        "unprintable": _("Remove the characters that cannot be shown; type the text instead of pasting it."),
        "number": _("Enter a number, such as %(example)s, without separators for thousands."),
        "range": _("Enter a number from %(low)s to %(high)s."),
        "numbers": _("Enter one of these numbers: %(numbers)s."),
        "date": _("Enter a date, such as 2026-12-20."),
        "days": _("Choose a date from %(first)s to %(last)s, or leave this empty if the change holds from now on."),
        "zone": _("Enter the name of a time zone, such as Europe/Berlin."),
        "choice": _("Choose one of the answers."),
        "pseudonym": _(
            "Use only letters without accents, digits, dots, hyphens and underscores, with a letter or a digit first."
        ),
        "account": _(
            "This name cannot be used. Use 1 to 64 letters and digits with single spaces or hyphens between them, and "
            "a name that no other account has or had."
        ),
        "unanswered": _("This question has no answer. Answer all questions, or none."),
        "unconfirmed": _("Tick the box to confirm."),
    }


def said(t: Texts, error: OpportuneError) -> str:
    """What is wrong and what to do, in the reader's language."""
    if isinstance(error, Wrong):
        return causes(t)[error.cause] % {name: _shown(value, t) for name, value in error.values.items()}
    known = sentences(t)
    return known.get(error.code, known["invalid"]) if isinstance(error, Refused) else known["invalid"]


def detail(error: OpportuneError) -> str:
    """The service's own words, in English, where no sentence covers the case."""
    translated = isinstance(error, Wrong) or (isinstance(error, Refused) and error.code != "invalid")
    return "" if translated else str(error)


def _shown(value: Any, t: Texts) -> str:
    if isinstance(value, dt.date):
        return t.day(value)
    return t.editable(value) if isinstance(value, int | float) else str(value)


def stays_on(page: Callable[..., Page]) -> Callable[[Handler], Handler]:
    """Show the page of a form again when the form is refused.

    Args:
        page: makes the page from the view, the form and the parameters of the path.

    """

    def decorate(handler: Handler) -> Handler:
        @functools.wraps(handler)
        async def answer(request: Asked, **path: Any) -> Response[Any]:
            try:
                return await handler(request, **path)
            except OpportuneError as error:
                if isinstance(error, Refused) and error.code in ELSEWHERE:
                    raise
                try:
                    form = await form_of(request)
                    view = _refused(await in_thread(view_of, request), form, error)
                    return await in_thread(lambda: page(view, form, **path))
                except (OpportuneError, SQLAlchemyError):  # the page cannot be shown either
                    raise error from None

        return answer

    return decorate


def _refused(view: View, form: Form, error: OpportuneError) -> View:
    code, status = (error.code, error.status) if isinstance(error, Refused) else ("invalid", 422)
    field = error.field if isinstance(error, Wrong) else _FIELDS.get(code, "")
    path = view.request.scope["path"]
    return replace(
        view,
        refused=Refusal(path, form.sent, status, said(view.t, error), detail=detail(error), field=field),
    )
