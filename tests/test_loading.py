"""Libraries that are left out of a process: those alone that nobody has loaded, and only as long as asked."""

import importlib
import subprocess
import sys

import pytest

from opportune import loading


def test_what_is_left_out_cannot_be_loaded_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is left out seems not installed, and is there again afterwards, also after an error."""
    monkeypatch.setattr(loading, "UNASKED", ("colorsys",))
    sys.modules.pop("colorsys", None)
    with pytest.raises(ModuleNotFoundError), loading.left_out():
        importlib.import_module("colorsys")
    assert importlib.import_module("colorsys")


def test_what_is_loaded_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that somebody has loaded is theirs."""
    monkeypatch.setattr(loading, "UNASKED", ("json",))
    with loading.left_out():
        assert importlib.import_module("json") is sys.modules["json"]
    assert "json" in sys.modules


@pytest.mark.parametrize("left_out", [True, False])
def test_results_need_none_of_it(left_out: bool) -> None:
    """Where libraries are left out, the first Dataset does not load dask; the control does, if it is installed."""
    pytest.importorskip("dask.array")
    script = (
        "import sys; from opportune import loading; "
        + ("loading.leave_out(); " if left_out else "")
        + "import opportune.analysis.intervals, numpy, xarray; "
        "xarray.Dataset({'a': ('x', numpy.zeros(2))}, coords={'x': [1, 2]}).mean(); "
        "print(bool(sys.modules.get('dask')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(not left_out)
