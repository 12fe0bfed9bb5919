"""A study of one's own in a TOML file: `load_study` reads and checks it, `Study` runs it, `live` is what is served."""

from opportune.study.build import Study
from opportune.study.load import example_study, load_study, parse_study
from opportune.study.serving import Live, live

__all__ = ["Live", "Study", "example_study", "live", "load_study", "parse_study"]
