"""People at the staff's pages, without a browser: they sign in, open pages, and send the forms that stand there."""

import html
import re
import time
from typing import Any

import httpx
from accounts_by_hand import person_by_hand
from pyotp.totp import TOTP
from site_over_http import Site

PASSWORD = "correct horse battery"


class Desk:
    """Someone who is signed in: keeps the cookie, and sends forms with what the page has put into them."""

    def __init__(self, site: Site, name: str, role: str | None = None) -> None:
        self.site, self.name = site, name
        self.cookies: dict[str, str] = {}
        self.secret, self.step = "", 0
        if role is not None:
            person_by_hand(site.service.database, name, role, PASSWORD)

    def request(self, method: str, path: str, fields: dict[str, str] | None = None, **headers: str) -> httpx.Response:
        """Any request, as a browser would send it; redirects are not followed."""
        cookies = "; ".join(f"{key}={value}" for key, value in self.cookies.items())
        given = {"Accept": "text/html", "Cookie": cookies, **headers}
        self.site.client.cookies.clear()
        found: httpx.Response = self.site.client.request(
            method, path, data=fields, headers=given, follow_redirects=False
        )
        for key, value in found.cookies.items():
            self.cookies[key] = value
        return found

    def sign_in(self, password: str = PASSWORD) -> httpx.Response:
        """Open the sign-in page and send its form."""
        page = self.request("GET", "/signin")
        (token,) = re.findall(r'name="token" value="([^"]*)"', page.text)
        fields = {"name": self.name, "password": password, "token": token, "next": "", "timezone": "Europe/Berlin"}
        found = self.request("POST", "/signin", fields)
        going = found.headers.get("location", "")
        if not going.startswith("/signin/"):
            return found
        if going == "/signin/second":
            self.secret = secret_on(self.page(going))
        given = self.send(going, going, code=self.code())
        assert given.status_code in {200, 303}, given.text
        return self.request("GET", "/")

    def code(self) -> str:
        """A code of this person's authenticator that was not used yet."""
        self.step = max(self.step + 1, int(time.time()) // 30 - 1)
        return TOTP(self.secret).at(self.step * 30)

    def page(self, path: str, status: int = 200) -> str:
        """A page's text, which must be there."""
        found = self.request("GET", path)
        assert found.status_code == status, (path, found.status_code, found.text[-500:])
        return found.text

    def form(self, page: str, action: str, **fields: str) -> dict[str, str]:
        """What the form with this action would send: its hidden fields, and what is filled in."""
        forms = re.findall(r"<form\b[^>]*>.*?</form>", page, flags=re.DOTALL)
        wanted = fields.get("decision")
        for text in forms:
            if f'action="{action}"' not in text or (wanted and f'value="{wanted}"' not in text):
                continue
            hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', text)
            return {**{name: html.unescape(value) for name, value in hidden}, **fields}
        raise AssertionError(f"no form for {action}")

    def send(self, path: str, action: str, **fields: str) -> httpx.Response:
        """Open a page, fill in the form with this action, and send it."""
        return self.request("POST", action, self.form(self.page(path), action, **fields))


def secret_on(page: str) -> str:
    """The secret that a page shows for an authenticator."""
    (shown,) = re.findall(r"<code>([A-Z2-7 ]+)</code>", page)
    return str(shown).replace(" ", "")


def went(response: httpx.Response, status: int = 303) -> str:
    """Where one is sent on to, which must be so."""
    assert response.status_code == status, (response.status_code, response.text[-800:])
    return str(response.headers.get("location", ""))


def desks(site: Site, **roles: str) -> dict[str, Any]:
    """People who are signed in, by their names."""
    found = {name: Desk(site, name, role) for name, role in roles.items()}
    for desk in found.values():
        went(desk.sign_in())
    return found
