"""Try an installed Opportune from a folder with nothing else in it: `python smoke.py COMMAND`, in an empty folder.

COMMAND is the `opportune` of the environment to try. Every step prints its seconds; the first that fails ends it.
"""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

STEPS = (
    ("--version",),
    ("reproduce", "table", "--quick", "--out", "out"),
    ("plan", "study.toml", "--out", "out", "--budgets", "0,10", "--participants", "10", "--replicates", "10"),
    ("rehearse", "study.toml", "--participants", "4", "--days", "10", "--export", "rehearsal"),
    ("analyse", "rehearsal", "--out", "analysis"),
)
WAIT = 300


def main(command: str) -> None:
    """Run every step, then the demonstration."""
    text = subprocess.run([command, "example", "stress-messages"], capture_output=True, text=True, check=True).stdout
    Path("study.toml").write_text(text, encoding="utf-8")
    for step in STEPS:
        began = time.monotonic()
        run = subprocess.run([command, *step], capture_output=True, text=True, check=False, timeout=1200)
        if run.returncode:
            sys.exit(
                f"opportune {' '.join(step)}: exit code {run.returncode}\n{run.stdout[-3000:]}{run.stderr[-3000:]}"
            )
        print(f"    {time.monotonic() - began:5.0f} s  opportune {' '.join(step)}", flush=True)
    began = time.monotonic()
    demo(command)
    print(f"    {time.monotonic() - began:5.0f} s  opportune demo: started, looked at, stopped", flush=True)


def demo(command: str) -> None:
    """Start the demonstration, read the page that it prints the address of, and end it as Ctrl-C does."""
    log = Path("demo.log")
    with log.open("w", encoding="utf-8") as output:
        started = subprocess.Popen(
            [command, "demo", "--no-browser", "--port", "0"],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            page = read(address(log, started))
        finally:
            started.send_signal(signal.SIGINT)
            code = started.wait(timeout=60)
    if 'href="/participants/' not in page or code:  # signed in, on the page Today
        sys.exit(f"opportune demo: exit code {code}\n{log.read_text(encoding='utf-8')[-3000:]}")


def read(url: str) -> str:
    """The page behind the demonstration's address, which signs in once, as soon as the server listens."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    until = time.monotonic() + WAIT
    while True:
        try:
            return str(browser.open(url, timeout=60).read().decode())
        except urllib.error.URLError as error:
            if isinstance(error, urllib.error.HTTPError) or time.monotonic() > until:
                raise
            time.sleep(0.5)


def address(log: Path, started: subprocess.Popen[bytes]) -> str:
    """The address that the demonstration prints, as soon as it does."""
    until = time.monotonic() + WAIT
    while time.monotonic() < until and started.poll() is None:
        if found := re.search(r"http://[^\s]+", log.read_text(encoding="utf-8")):
            return found[0]
        time.sleep(0.2)
    sys.exit(f"opportune demo printed no address:\n{log.read_text(encoding='utf-8')[-3000:]}")


if __name__ == "__main__":
    main(sys.argv[1])
