"""Before any test: no thread pools that fight over few cores."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Two threads at least, so that tests of the thread count can fail on a machine with one core.
os.environ.setdefault("NUMBA_NUM_THREADS", str(max(2, os.cpu_count() or 1)))

pytest_plugins = ("service_databases",)  # SQLite and PostgreSQL for whoever asks for them
