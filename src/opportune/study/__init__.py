"""Study files: `load_study` reads and checks one, `Study` simulates it, `live` returns what a service runs."""

from opportune.study.build import Study
from opportune.study.load import example_study, load_study, parse_study
from opportune.study.serving import Live, live

__all__ = ["Live", "Study", "example_study", "live", "load_study", "parse_study"]
