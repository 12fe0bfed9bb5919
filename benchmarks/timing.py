"""Timing: the best of several repetitions, with contestants in turn, so that noise affects all of them equally."""

import os
import platform
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numba

Name = TypeVar("Name", bound=Hashable)


def seconds_of(function: Callable[[], object]) -> float:
    """The duration of one call."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def in_turn(contestants: Mapping[Name, Callable[[], object]], repetitions: int) -> dict[Name, list[float]]:
    """The seconds of each contestant, called once in every round."""
    seconds: dict[Name, list[float]] = {name: [] for name in contestants}
    for _ in range(repetitions):
        for name, function in contestants.items():
            seconds[name].append(seconds_of(function))
    return seconds


def best_of(contestants: Mapping[Name, Callable[[], object]], repetitions: int) -> dict[Name, float]:
    """The least seconds of each contestant, called once in every round after a warm-up call."""
    in_turn(contestants, 1)
    return {name: min(taken) for name, taken in in_turn(contestants, repetitions).items()}


def machine() -> dict[str, Any]:
    """The machine and versions behind the figures."""
    packages = ("opportune", "numpy", "numba", "joblib", "jax")
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": numba.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: found for name in packages if (found := installed(name))},
    }


def processor() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine() or sys.platform


def installed(name: str) -> str | None:
    """The version of a package, if it is installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
