"""Before any test: no thread pools that fight over few cores, and temporary files where nothing waits for a disk."""

import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Two threads at least, so that tests of the thread count can fail on a machine with one core.
os.environ.setdefault("NUMBA_NUM_THREADS", str(max(2, os.cpu_count() or 1)))

# Files that need not outlive the machine are kept in memory if there is room: tests kill processes, not machines.
SHARED = Path("/dev/shm")
ROOM = 2**32
if SHARED.is_dir() and shutil.disk_usage(SHARED).free > ROOM and "TMPDIR" not in os.environ:
    tempfile.tempdir = os.environ["TMPDIR"] = str(SHARED)

pytest_plugins = ("service_databases",)  # SQLite and PostgreSQL for whoever asks for them
