"""Before any test: no stale compiled code, no thread pools that fight over few cores."""

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Two threads at least, so that tests of the thread count can fail on a machine with one core.
os.environ.setdefault("NUMBA_NUM_THREADS", str(max(2, os.cpu_count() or 1)))


def pytest_sessionstart() -> None:
    """Throw compiled code away if any source has changed since it was made.

    Numba's cache on disk looks at a function's own file only: after an edit in `core.ridge`, `simulation.cpu`
    would go on with the old one inside.
    """
    forget_stale_code(ROOT)


def forget_stale_code(root: Path) -> bool:
    """Delete Numba's cache files where the sources are not those of the stamp; says whether it did."""
    package = root / "src" / "opportune"
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    stamp = package / "__pycache__" / ".sources"
    if stamp.is_file() and stamp.read_text() == digest.hexdigest():
        return False
    for folder in ("src", "benchmarks", "tests"):
        for pattern in ("*.nbi", "*.nbc"):
            for path in (root / folder).rglob(pattern):
                path.unlink(missing_ok=True)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(digest.hexdigest())
    return True
