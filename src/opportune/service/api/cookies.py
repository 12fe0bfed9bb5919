"""Cookies: hidden from scripts and from other sites; over HTTPS also from other hosts and from unencrypted requests."""

from typing import Any

from litestar import Response
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie, State

SIGNED_IN, FORM, BROWSER = "opportune_session", "opportune_form", "opportune_browser"
ELSEWHERE = "opportune_institution"
"""The cookie for the time of a sign-in at the institution."""
Connection = ASGIConnection[Any, Any, Any, State]


def _name(connection: Connection, name: str) -> str:
    """A cookie's name: browsers accept the prefix `__Host-` only from this host and over HTTPS."""
    return f"__Host-{name}" if connection.scope["scheme"] == "https" else name


def read(connection: Connection, name: str) -> str:
    """The value of a cookie; empty if the browser has none."""
    return connection.cookies.get(_name(connection, name), "")[:200]


def cookie(connection: Connection, name: str, value: str, *, lasts: int | None = None) -> Cookie:
    """A cookie that lasts for some seconds, or until the browser is closed."""
    return Cookie(
        key=_name(connection, name), value=value, httponly=True, samesite="lax",
        secure=connection.scope["scheme"] == "https", path="/", max_age=lasts,
    )  # fmt: skip


def forget(connection: Connection, answer: "Response[Any]") -> "Response[Any]":
    """Make the browser delete its session cookie."""
    answer.set_cookie(cookie(connection, SIGNED_IN, "", lasts=0))
    return answer
