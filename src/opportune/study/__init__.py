"""A study of one's own in a TOML file: `load_study` reads and checks it, `Study` runs it."""

from opportune.study.build import Study
from opportune.study.load import load_study, parse_study

__all__ = ["Study", "load_study", "parse_study"]
