"""Study files that come with the package: a small one to begin with, a trial with everything, two published designs."""

from importlib.resources import files

from opportune import checks

EXAMPLES = {
    "stress-messages": "three messages, twice a day: a small file to begin with",
    "cardiac-calls": "a randomised trial of a call centre, with everything that one needs",
    "oralytics": "a published design: prompts for tooth brushing, two decisions a day for 70 days",
    "heartsteps": "a published design: activity suggestions, five decisions a day for 42 days",
}
"""Each by its name, with what it is."""


def example(name: str) -> str:
    """The text of an example."""
    checks.choice("example", name, EXAMPLES)
    return files("opportune.study.examples").joinpath(f"{name}.toml").read_text(encoding="utf-8")
