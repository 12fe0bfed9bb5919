"""What every test of the service gets."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logging_restored() -> Iterator[None]:
    """A test that starts a service changes how this process logs; the next one logs as before."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
