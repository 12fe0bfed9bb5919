"""Liveness, readiness and metrics."""

import os
import time
from functools import cache
from typing import Any

from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from opportune.service.accounts.keys import ADMIN, ANALYST
from opportune.service.api.answers import Health
from opportune.service.api.problems import PROBLEM, refusals
from opportune.service.api.requests import OPEN, roles, service_of
from opportune.service.problems import Problem, Refused
from opportune.service.record import queries, tables

Asked = Request[Any, Any, State]
REGISTRY = CollectorRegistry()
SECONDS = Histogram(
    "opportune_request_seconds", "Duration of requests.", ["operation", "status"], registry=REGISTRY,
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)  # fmt: skip
BATCHES = Gauge("opportune_batches", "Transactions of this worker.", ["worker"], registry=REGISTRY)
WRITTEN = Gauge("opportune_commands", "Commands that this worker has written.", ["worker"], registry=REGISTRY)
EVENTS = Gauge("opportune_events", "Events on record.", registry=REGISTRY)
DECISIONS = Gauge("opportune_decisions", "Decisions on record.", registry=REGISTRY)
OPEN_NUDGES = Gauge("opportune_open_nudges", "Nudges that wait for an answer.", registry=REGISTRY)
ALERTS = Gauge("opportune_alerts", "Open alerts.", ["level"], registry=REGISTRY)
REFUSED = Counter("opportune_refused", "Requests that were refused.", ["status"], registry=REGISTRY)


@cache
def _seconds(operation: str, status: int) -> Histogram:
    found: Histogram = SECONDS.labels(operation, str(status))
    return found


def note(operation: str, status: int, seconds: float) -> None:
    """Count and time a request."""
    _seconds(operation, status).observe(seconds)
    if status >= 400:
        REFUSED.labels(str(status)).inc()


class Measured(ASGIMiddleware):
    """Counts and times requests by the operation's name, without keeping whom they concern."""

    scopes = (ScopeType.HTTP,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Pass a request on, and note the status of its answer."""
        began = time.perf_counter()

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                handler = scope.get("route_handler")
                note(str(getattr(handler, "handler_name", "none")), message["status"], time.perf_counter() - began)
            await send(message)

        await next_app(scope, receive, watch)


@get(
    "/healthz", opt=OPEN, sync_to_thread=False, tags=["watching"], operation_id="healthz", security=[],
    summary="Alive?", responses={200: ResponseSpec(Health, description="Alive.", generate_examples=False)},
)  # fmt: skip
def healthz() -> Health:
    """Whether the process answers."""
    return Health(status="alive")


@get(
    "/readyz", opt=OPEN, sync_to_thread=True, tags=["watching"], operation_id="readyz", security=[], summary="Ready?",
    responses={
        200: ResponseSpec(Health, description="Ready.", generate_examples=False),
        503: ResponseSpec(Problem, description="Not ready.", generate_examples=False, media_type=PROBLEM),
    },
)  # fmt: skip
def readyz(request: Asked) -> Health:
    """Whether decisions can be made and stored."""
    why = service_of(request).healthy()
    if why is not None:
        raise Refused("unavailable", why)
    return Health(status="ready")


@get(
    "/metrics", opt=roles(ANALYST, ADMIN), sync_to_thread=True, tags=["watching"], operation_id="metrics",
    summary="Metrics for Prometheus", media_type="text/plain", responses=refusals(),
)  # fmt: skip
def metrics(request: Asked) -> Response[bytes]:
    """Counts and durations, without information about participants."""
    service = service_of(request)
    worker = str(os.getpid())
    BATCHES.labels(worker).set(service.writer.batches)
    WRITTEN.labels(worker).set(service.writer.written)
    study = queries.study_row(service.database)
    EVENTS.set(0 if study is None else study["seq"])
    DECISIONS.set(queries.count(service.database, tables.decisions))
    OPEN_NUDGES.set(queries.count(service.database, tables.decisions, tables.open_nudge))
    found = queries.alert_rows(service.database)
    for level in ("red", "yellow", "green"):
        ALERTS.labels(level).set(sum(alert["level"] == level for alert in found))
    return Response(generate_latest(REGISTRY), media_type="text/plain")


HEALTH = [healthz, readyz, metrics]
