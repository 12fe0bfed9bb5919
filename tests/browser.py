"""Where the tests find a Chromium to drive, and how they start it."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

VARIABLE = "OPPORTUNE_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 15_000
"""Milliseconds that an assertion waits for what it expects: a machine that runs other tests beside it is slow."""


def find_chromium(environment: Mapping[str, str] = os.environ) -> str:
    """The Chromium to use; without one the test is skipped, but fails on continuous integration (CI=true)."""
    given = environment.get(VARIABLE)
    if given:
        if not Path(given).is_file():
            pytest.fail(f"{VARIABLE} is {given!r}; expected a Chromium's program file", pytrace=False)
        return given
    for name in NAMES:
        found = shutil.which(name, path=environment.get("PATH"))
        if found:
            return found
    reason = (
        f"no Chromium: none of {', '.join(NAMES)} is on PATH; install one (Debian package `chromium`) "
        f"or set {VARIABLE} to its program file"
    )
    if environment.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A headless Chromium, closed at the end."""
    program = find_chromium()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
