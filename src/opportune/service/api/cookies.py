"""Cookies: out of reach of scripts, of other sites and, over HTTPS, of other hosts and of whatever is not encrypted."""

from typing import Any

from litestar import Response
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie, State

SIGNED_IN, FORM, BROWSER = "opportune_session", "opportune_form", "opportune_browser"
ELSEWHERE = "opportune_institution"
"""What is kept while someone signs in at the institution."""
Connection = ASGIConnection[Any, Any, Any, State]


def _name(connection: Connection, name: str) -> str:
    """What a cookie is called: browsers take one with this prefix from this host alone, and over HTTPS."""
    return f"__Host-{name}" if connection.scope["scheme"] == "https" else name


def read(connection: Connection, name: str) -> str:
    """What the browser holds; empty if nothing."""
    return connection.cookies.get(_name(connection, name), "")[:200]


def cookie(connection: Connection, name: str, value: str, *, lasts: int | None = None) -> Cookie:
    """Something for the browser to hold: until it is closed, or so many seconds."""
    return Cookie(
        key=_name(connection, name), value=value, httponly=True, samesite="lax",
        secure=connection.scope["scheme"] == "https", path="/", max_age=lasts,
    )  # fmt: skip


def forget(connection: Connection, answer: "Response[Any]") -> "Response[Any]":
    """An answer with which the browser forgets that someone is signed in."""
    answer.set_cookie(cookie(connection, SIGNED_IN, "", lasts=0))
    return answer
