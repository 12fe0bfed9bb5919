"""What all pages share: templates, views, commands and answers."""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import MediaType, Request, Response
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.response import Redirect
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from sqlalchemy import func, select

from opportune._version import __version__
from opportune.service.accounts.keys import ADMIN, ANALYST, STAFF
from opportune.service.accounts.pseudonyms import labels
from opportune.service.accounts.sessions import Session
from opportune.service.api.requests import SESSION, service_of
from opportune.service.commands.base import Command
from opportune.service.pages import words
from opportune.service.pages.texts import Texts, languages, preferred, texts
from opportune.service.problems import Refused
from opportune.service.record import queries, tables
from opportune.service.record.writer import Reply
from opportune.service.service import Service
from opportune.service.state.study import StudyInForce

Asked = Request[Any, Any, State]
Page = Response[bytes]
Found = TypeVar("Found")
STATIC = Path(__file__).parent / "static"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
NO_STORE = (b"cache-control", b"no-store")
NAVIGATION = {
    "today": (STAFF, ADMIN),
    "participants": (STAFF, ANALYST, ADMIN),
    "study": (STAFF, ANALYST, ADMIN),
    "record": (STAFF, ANALYST, ADMIN),
    "accounts": (ADMIN,),
}


class Sealed(ASGIMiddleware):
    """Adds security headers: no foreign content, no frames, no caching."""

    scopes = (ScopeType.HTTP,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Pass a request on and add the headers to its answer."""
        path = scope["path"]
        if path.startswith("/api/"):
            await next_app(scope, receive, send)
            return

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", []))
                names = {name.lower() for name, _ in headers}
                headers += [header for header in HEADERS if header[0] not in names]
                if b"cache-control" not in names:
                    headers.append(NO_STORE)
                if scope["scheme"] == "https":
                    headers.append((b"strict-transport-security", b"max-age=31536000"))
                message["headers"] = headers
            await send(message)

        await next_app(scope, receive, add)


def once() -> str:
    """A key that makes a form count once, however often it is sent."""
    return secrets.token_urlsafe(12)


@cache
def static_version() -> str:
    """A hash that changes with the style sheet and the script."""
    content = b"".join(file.read_bytes() for file in sorted(STATIC.iterdir()))
    return hashlib.sha256(content).hexdigest()[:12]


@cache
def _environment(language: str) -> Environment:
    t = texts(language)
    environment = Environment(
        loader=PackageLoader("opportune.service.pages", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.i18n"], cache_size=-1,
    )  # fmt: skip
    environment.install_gettext_callables(  # type: ignore[attr-defined]
        t.translations.ugettext, t.translations.ungettext, newstyle=True
    )
    environment.globals.update(
        t=t, once=once, words=words, languages=languages(), static=static_version(), version=__version__,
        navigation=NAVIGATION,
    )  # fmt: skip
    environment.filters.update(number=t.number)
    return environment


@dataclass(frozen=True)
class Refusal:
    """A refused form, whose page is shown again with the reason and with what was typed."""

    path: str
    sent: Mapping[str, str]
    status: int
    said: str
    """What is wrong and what to do, in the reader's language."""
    detail: str = ""
    """The service's own words, in English, where no sentence covers the case."""
    field: str = ""
    """The name of the field that is wrong, if it is one field."""


@dataclass(frozen=True)
class Kept:
    """The content of a form on a page: nothing, or what was sent if this form was refused."""

    fields: Mapping[str, str] = field(default_factory=dict)
    wrong: str = ""
    said: str = ""

    def get(self, name: str, default: Any = "") -> Any:
        """What a field contained; the default if the form was not refused."""
        return self.fields.get(name, "") if self.fields else default


@dataclass(frozen=True)
class View:
    """The context of a page: who looks at which study, in which language and time zone, and when."""

    request: Asked
    service: Service
    session: Session
    running: StudyInForce
    study: Mapping[str, Any]
    t: Texts
    timezone: str
    now: int
    refused: Refusal | None = None
    """The form that was sent to get this page, if it was refused."""

    def kept(self, path: str, **hidden: str) -> Kept:
        """The content for the form with this path and these hidden fields."""
        refused = self.refused
        if refused is None or refused.path != path or any(refused.sent.get(k) != v for k, v in hidden.items()):
            return Kept()
        return Kept(refused.sent, refused.field, refused.said)

    @property
    def who(self) -> str:
        """The name that the record shows for what the person does."""
        return self.session.caller.name

    @property
    def role(self) -> str:
        """The person's role."""
        return self.session.caller.role

    @cached_property
    def blind(self) -> bool:
        """Whether the person must not see probabilities, prices and coins."""
        return self.service.blind(self.session.caller)

    @cached_property
    def named(self) -> Callable[[str], str]:
        """Names of accounts as the viewer sees them: analysts see roles and numbers."""
        return labels(self.service.database) if self.role == ANALYST else str

    @cached_property
    def contact(self) -> Callable[[str], str] | None:
        """The address of a participant's contact details; None if the study file has none, and for analysts."""
        address = self.running.study.settings.serve.contact_url
        if address is None or self.role == ANALYST:
            return None
        return lambda participant: address.replace("{participant}", quote(participant, safe=""))

    def both(self, moment: int, timezone: str) -> str:
        """A time by the participant's clock and, if it differs, by the viewer's; both with their place."""
        t, here = self.t, self.timezone
        there = f"{t.moment(moment, timezone)} ({t.zone(timezone)})"
        if t.moment(moment, timezone) == t.moment(moment, here):
            return there
        same_day = t.date(moment, timezone) == t.date(moment, here)
        return f"{there}, {t.time(moment, here) if same_day else t.moment(moment, here)} ({t.zone(here)})"

    def show(self, template: str, code: int = 200, /, **content: Any) -> Page:
        """Render a page."""
        alerts = queries.alert_rows(self.service.database, limit=100)
        shown = {
            "view": self, "role": self.role, "who": self.who, "form_token": self.session.form,
            "study_name": self.study["name"], "red": sum(alert["level"] == "red" for alert in alerts),
            "waiting": waiting_of(self.service) if self.role in NAVIGATION["today"] else Waiting(0, 0, 0),
            "contact": self.contact, "rehearsal": self.service.rehearsal,
            "here": template.split(".", maxsplit=1)[0], **content,
        }  # fmt: skip
        return html(self.t.language, template, code if self.refused is None else self.refused.status, **shown)


class Waiting(NamedTuple):
    """The number of items that wait for staff, and the latest event behind them; a larger event is newer."""

    number: int
    latest_call: int
    latest_urgent: int


def waiting_of(service: Service) -> Waiting:
    """The calls that wait and the open escalations."""
    table, calls, urgent = tables.decisions, tables.calls, tables.escalations
    open_calls = (
        select(func.count(), func.max(table.c.seq))
        .select_from(table.outerjoin(calls, calls.c.decision == table.c.id))
        .where(tables.open_nudge, calls.c.due.is_(None))
    )
    unseen = select(func.count(), func.max(urgent.c.seq)).where(urgent.c.acknowledged.is_(None))
    with service.database.reading.connect() as connection:
        (number, call), (more, item) = connection.execute(open_calls).one(), connection.execute(unseen).one()
    return Waiting(number + more, call or 0, item or 0)


def view_of(request: Asked) -> View:
    """The context of the page that a request asks for."""
    service = service_of(request)
    session: Session = request.scope[SESSION]  # type: ignore[literal-required]
    study = queries.study_row(service.database)
    if study is None:
        raise Refused("not_found", "no study is launched in this database")
    running = StudyInForce.from_text(study["file"])
    language = session.language or preferred(request.headers.get("accept-language", ""))
    return View(
        request=request, service=service, session=session, running=running, study=study, t=texts(language),
        timezone=session.timezone or running.timezone, now=service.now(),
    )  # fmt: skip


def html(language: str, template: str, code: int = 200, /, **content: Any) -> Page:
    """Render a template as an HTML response."""
    text = _environment(texts(language).language).get_template(template).render(**content)
    return Response(text.encode(), status_code=code, media_type=MediaType.HTML)


def fragment(view: View, template: str, **content: Any) -> Page:
    """Render a part of a page, for the script that refreshes it."""
    return html(view.t.language, template, view=view, role=view.role, who=view.who, form_token=view.session.form,
                contact=view.contact, **content)  # fmt: skip


def go(path: str) -> "Response[Any]":
    """Redirect to a page, which can be reloaded without repeating anything."""
    return Redirect(path, status_code=303)


def language_of(request: Asked) -> str:
    """The language of someone who is not signed in yet."""
    return preferred(request.headers.get("accept-language", ""))


async def carry_out(view: View, command: Command) -> Reply:
    """Carry out a command."""
    return await view.service.carry_out(command)


async def in_thread(function: Callable[..., Found], *values: Any) -> Found:
    """Run a function that waits for the database in a thread."""
    return await asyncio.to_thread(function, *values)
