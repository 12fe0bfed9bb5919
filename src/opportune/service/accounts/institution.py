"""Signing in through the institution: OpenID Connect with an authorization code, PKCE, and a checked ID token.

Accounts are added as usual; the institution only confirms identity. At the first sign-in, an account is tied to the
institution's subject identifier, so that a name reassigned there does not open the account here.
"""

import os
import secrets
from functools import cached_property
from typing import Any, NamedTuple

import httpx
import structlog
from authlib.common.errors import AuthlibBaseError
from authlib.oauth2.rfc6749.parameters import parse_authorization_code_response, prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from sqlalchemy import select, update

from opportune.errors import InputError
from opportune.service.accounts.keys import Caller
from opportune.service.problems import Refused
from opportune.service.record import tables
from opportune.service.record.database import Database

ISSUER, CLIENT, SECRET = "OPPORTUNE_OIDC_ISSUER", "OPPORTUNE_OIDC_CLIENT", "OPPORTUNE_OIDC_SECRET"
CLAIM, LABEL = "OPPORTUNE_OIDC_CLAIM", "OPPORTUNE_OIDC_NAME"
SIGNATURES = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Algorithms accepted for ID tokens: only asymmetric ones, whose signing keys nobody but the institution has."""
SECONDS = 10.0
"""The timeout of requests to the institution."""
_PEOPLE = tables.people
log = structlog.get_logger()


class Asked(NamedTuple):
    """What a browser keeps during a sign-in at the institution: three random values."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "Asked":
        """New values, for one attempt to sign in."""
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48))

    @classmethod
    def of(cls, text: str) -> "Asked | None":
        """The values from the text that the browser kept; None if it is malformed."""
        parts = text.split(".")
        return cls(*parts) if len(parts) == 3 else None

    def __str__(self) -> str:
        return ".".join(self)


class Institution:
    """An institution's identity provider.

    Args:
        issuer: its address, under which /.well-known/openid-configuration is found.
        client: the client ID of this service.
        secret: the client secret of this service.
        claim: the claim of the ID token that contains an account's name.
        name: the institution's name on the sign-in page.

    """

    def __init__(self, issuer: str, client: str, secret: str, *, claim: str, name: str) -> None:
        self.issuer, self.claim, self.name = issuer.rstrip("/"), claim, name
        self._client, self._secret = client, secret

    @cached_property
    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = _read(f"{self.issuer}/.well-known/openid-configuration")
        if metadata.get("issuer", "").rstrip("/") != self.issuer:
            raise ValueError("the metadata names another issuer")
        return metadata

    def address(self, asked: Asked, back: str) -> str:
        """The address to which a browser is sent to sign in; it returns to `back`."""
        try:
            place = self._metadata["authorization_endpoint"]
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise Refused("unavailable", f"{self.name} cannot be reached at the moment") from error
        challenge = create_s256_code_challenge(asked.verifier)
        address = prepare_grant_uri(
            place, self._client, "code", redirect_uri=back, scope="openid profile email", state=asked.state,
            nonce=asked.nonce, code_challenge=challenge, code_challenge_method="S256",
        )  # fmt: skip
        return str(address)

    def claims(self, answer: str, asked: Asked, back: str) -> dict[str, Any] | None:
        """The claims about the person who returned with an answer; None if it is not valid."""
        try:
            code = parse_authorization_code_response(answer, asked.state)["code"]
            token = self._exchange(code, asked, back)
            keys = KeySet.import_key_set(_read(self._metadata["jwks_uri"]))
            decoded = jwt.decode(token["id_token"], keys, algorithms=SIGNATURES)
            options = {"iss": {"essential": True, "value": self._metadata["issuer"]}, "sub": {"essential": True}}
            expected = {"nonce": asked.nonce, "client_id": self._client, "access_token": token.get("access_token")}
            claims = CodeIDToken(decoded.claims, decoded.header, options, expected)
            claims.validate(leeway=60)
        except (AuthlibBaseError, JoseError, httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            log.info("a sign-in through the institution was not valid", reason=type(error).__name__)
            return None
        return dict(claims)

    def _exchange(self, code: str, asked: Asked, back: str) -> dict[str, Any]:
        """Exchange an authorization code for tokens."""
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": asked.verifier,
        }  # fmt: skip
        me = (self._client, self._secret)
        found = httpx.post(self._metadata["token_endpoint"], data=form, auth=me, timeout=SECONDS)
        tokens: dict[str, Any] = found.raise_for_status().json()
        return tokens

    def account(self, database: Database, claims: dict[str, Any]) -> Caller | None:
        """The account for these claims; None if there is none, or if it is tied to another person there."""
        name, subject = claims.get(self.claim), f"{self.issuer} {claims['sub']}"
        if not isinstance(name, str) or (self.claim == "email" and claims.get("email_verified") is False):
            return None
        active = (_PEOPLE.c.name == name, _PEOPLE.c.revoked.is_(None), _PEOPLE.c.suspended.is_(None))
        with database.writing.begin() as connection:
            row = connection.execute(select(_PEOPLE.c.role, _PEOPLE.c.subject).where(*active)).first()
            if row is None or row.subject not in {None, subject}:
                return None
            if row.subject is None:
                connection.execute(update(_PEOPLE).where(*active).values(subject=subject))
        return Caller(name, str(row.role))


def _read(address: str) -> Any:
    return httpx.get(address, timeout=SECONDS).raise_for_status().json()


def from_environment() -> Institution | None:
    """The institution that the environment variables describe; None if none is set."""
    given = {name: os.environ.get(name, "") for name in (ISSUER, CLIENT, SECRET)}
    if not any(given.values()):
        return None
    if missing := [name for name, value in given.items() if not value]:
        raise InputError(
            f"{' and '.join(missing)} is not set; expected {ISSUER}, {CLIENT} and {SECRET}, or none of them"
        )
    local = given[ISSUER].startswith(("http://localhost", "http://127.0.0.1"))
    if not given[ISSUER].startswith("https://") and not local:
        raise InputError(f"{ISSUER} is {given[ISSUER]!r}; expected an address that begins with https://")
    return Institution(
        given[ISSUER], given[CLIENT], given[SECRET], claim=os.environ.get(CLAIM) or "preferred_username",
        name=os.environ.get(LABEL) or "institution",
    )  # fmt: skip
