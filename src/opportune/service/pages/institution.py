"""Signing in through the institution: the redirect to it and the return."""

from typing import Any

from litestar import Response, get

from opportune.service.accounts import institution
from opportune.service.api.cookies import ELSEWHERE, cookie, read
from opportune.service.api.requests import OPEN, address_of, service_of
from opportune.service.pages.shared import Asked, go
from opportune.service.pages.signing import enter, sign_in_page
from opportune.service.problems import Refused


@get("/signin/institution", opt=OPEN, sync_to_thread=True, include_in_schema=False)
def go_to_institution(request: Asked) -> Response[Any]:
    """Redirect to the institution to sign in."""
    service_of(request).limits.sign_in.check(address_of(request))
    asked = institution.Asked.new()
    answer = go(_institution(request).address(asked, _back(request)))
    answer.set_cookie(cookie(request, ELSEWHERE, str(asked), lasts=600))
    return answer


@get("/signin/back", opt=OPEN, sync_to_thread=True, include_in_schema=False)
def come_back(request: Asked) -> Response[Any]:
    """Return from the institution with the person's identity; a second factor follows as after a password."""
    limits, address = service_of(request).limits, address_of(request)
    limits.sign_in.check(address)
    asked, caller = institution.Asked.of(read(request, ELSEWHERE)), None
    if asked is not None:
        claims = _institution(request).claims(str(request.url), asked, _back(request))
        caller = None if claims is None else _institution(request).account(service_of(request).database, claims)
    if caller is None:
        limits.sign_in.count(address)
        page = sign_in_page(request, 401, unknown="institution")
        page.set_cookie(cookie(request, ELSEWHERE, "", lasts=0))
        return page
    answer = enter(request, caller)
    answer.set_cookie(cookie(request, ELSEWHERE, "", lasts=0))
    return answer


def _institution(request: Asked) -> institution.Institution:
    found = service_of(request).institution
    if found is None:
        raise Refused("not_found", "no institution is configured")
    return found


def _back(request: Asked) -> str:
    return f"{request.base_url}signin/back"


INSTITUTION = [go_to_institution, come_back]
