"""The schema holds: whatever it allows is answered as it says, for every role."""

import os
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from site_over_http import Site, site_on

from opportune.service.accounts.keys import ROLES
from opportune.service.record.database import Database
from opportune.service.verify.check import verify

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = int(os.environ.get("OPPORTUNE_EXAMPLES", "6"))


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A service with someone enrolled and some decisions."""
    with site_on(sqlite) as found:
        found.enrol()
        found.decide()
        yield found


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_the_api_answers_as_its_schema_says(
    site: Site, sqlite: Database, role: str, mode: schemathesis.GenerationMode
) -> None:
    """Requests as the schema allows them, and as it does not: no fault, no answer that the schema does not know."""
    schema = schemathesis.openapi.from_dict(httpx.Response(200, content=site.client.get("/schema").content).json())
    tried = []
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation: Any = result.ok()
        try:
            strategy = operation.as_strategy(mode)
            strategy.validate()
        except Exception:
            if mode is schemathesis.GenerationMode.POSITIVE:
                raise
            continue

        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
            phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=strategy)
        def run(case: Any) -> None:
            tried.append(case.operation.label)
            case.validate_response(send(site, case, role), checks=CHECKS)

        run()
    assert len(set(tried)) > 12
    assert verify(sqlite).findings == []


def send(site: Site, case: Any, role: str) -> httpx.Response:
    """Send what was made, with a role's key and an idempotency key; names of what exists now and then."""
    known = {"participant": "P001", "decision": "d3", "name": "decisions.csv"}
    if case.path_parameters and zlib.crc32(str(case.body).encode()) % 2:
        case.path_parameters = {name: known.get(name, value) for name, value in case.path_parameters.items()}
    arguments = case.as_transport_kwargs(base_url="http://testserver")
    headers = {
        **site.headers(role),
        **{k: v for k, v in arguments.pop("headers", {}).items() if "auth" not in k.lower()},
    }
    headers = {name: value for name, value in headers.items() if value.isascii() and value.isprintable()}
    headers.setdefault("Idempotency-Key", "x")
    cookies, _ = arguments.pop("cookies", None), arguments.pop("files", None)
    assert not cookies
    body = arguments.pop("data", None)
    if body is not None:
        arguments["content"] = body
    found: httpx.Response = site.client.request(headers=headers, **arguments)
    return found
