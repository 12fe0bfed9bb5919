"""The parts of an experiment: tasks that can be resumed one by one, and findings computed from their results.

An experiment is a module with `EXPERIMENT = Experiment(...)`. Its configuration is plain data. Its tasks have names, do
not depend on each other, and return a Dataset each; everything that readers see is computed from these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from opportune.experiments.claims import Claim
from opportune.experiments.record import Table

Config = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure, its file name without extension, a caption that says what to look for, and alternative text."""

    name: str
    figure: Figure
    caption: str
    alt: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The findings of an experiment: a few sentences with numbers, then all details."""

    found: str
    numbers: dict[str, Any]
    claims: list[Claim]
    pictures: list[Picture]
    tables: list[Table] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One experiment.

    Attributes:
        name: the name on the command line.
        title: a heading.
        about: one to three sentences for the report.
        config: the configuration for quick or full runs: plain JSON values.
        tasks: the names of the tasks of a configuration, in order.
        run_task: (config, task, seed) -> the task's results, as small as the findings allow.
        findings: (config, {task: results}) -> the findings.
        prepare: called before any experiment runs, such as to register its own rules.

    """

    name: str
    title: str
    about: str
    config: Callable[[bool], Config]
    tasks: Callable[[Config], list[str]]
    run_task: Callable[[Config, str, int], xr.Dataset]
    findings: Callable[[Config, Mapping[str, xr.Dataset]], Findings]
    prepare: Callable[[], object] = lambda: None
