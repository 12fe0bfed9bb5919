"""Work shared by threads: everything is done once, errors come through, Ctrl-C is heard at once."""

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from opportune.engine.threads import parts_of, share

# Two billion steps in one replicate: compiled pieces that take minutes, whatever `simulate` splits.
LONG = """
import opportune as op
import time

worlds = op.synthetic_worlds(200, seed=1)
small = dict(replicates=1, seed=1, trace=False, progress=False)
op.simulate(worlds, op.pd2_ucb(10), horizon=10, **small)  # compiled before the clock starts
print("ready", flush=True)
try:
    op.simulate(worlds, op.pd2_ucb(10), horizon=10_000_000, **small)
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
"""


@pytest.mark.parametrize(("total", "threads"), [(0, 1), (1, 4), (7, 2), (16, 1), (1000, 3)])
def test_parts_cover_everything_once(total: int, threads: int) -> None:
    """Parts follow each other without a hole, whatever their number."""
    covered = [i for first, last in parts_of(total, threads) for i in range(first, last)]
    assert covered == list(range(total))


def test_every_part_is_done_once() -> None:
    """By more than one thread, none of them the caller's."""
    done, who = [], set()

    def work(part: int, _: Any) -> None:
        time.sleep(0.002)
        done.append(part)
        who.add(threading.get_ident())

    share(work, range(40), 3)
    assert sorted(done) == list(range(40))
    assert 1 < len(who) <= 3
    assert threading.get_ident() not in who


def test_the_first_error_is_raised_and_stops_the_rest() -> None:
    """What other threads are doing is told to stop; what waits is not begun."""
    begun = []

    def work(part: int, stop: np.ndarray) -> None:
        begun.append(part)
        if part == 1:
            raise KeyError("a bug")
        until = time.monotonic() + 5
        while not stop[0] and time.monotonic() < until:
            time.sleep(0.001)
        assert stop[0]

    with pytest.raises(KeyError, match="a bug"):
        share(work, range(100), 2)
    assert begun == [0, 1]


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.parametrize("heard", [True, False])
def test_ctrl_c_is_heard_within_a_second_inside_one_compiled_piece(heard: bool) -> None:
    """One run that would take minutes ends when it is told to; the control ignores SIGINT and goes on."""
    deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    hearing = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script = (hearing if heard else deaf) + LONG
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(0.5)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            if heard:
                assert float(process.stdout.readline()) - sent < 1
            else:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(3)
        finally:
            process.kill()
