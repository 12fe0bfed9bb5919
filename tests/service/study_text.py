"""Study files that several tests of the service use: the example, and variants of it."""

import re
from importlib.resources import files

EXAMPLE = files("opportune.study.examples").joinpath("stress-messages.toml").read_text(encoding="utf-8")
EXAMPLE = re.sub(r"(?m)^pooled = .*\n", "", EXAMPLE)  # models of their own, unless a test says otherwise
EXAMPLE = re.sub(r"(?m)^schema = .*\n", "", EXAMPLE)  # nothing randomised, unless a test says otherwise


def study_text(
    *, times: bool = False, shared: bool = False, pooled: bool | str = False, hard: bool = False, budget: float = 20,
    planned: int = 8, horizon: int = 200, extra: str = "", policy: str = "PACE",
) -> str:  # fmt: skip
    """The example study, with or without decision times, with what participants share."""
    text = EXAMPLE if times else re.sub(r"(?m)^times = .*\n", "", EXAMPLE)
    text = re.sub(r"(?m)^budget = .*$", f"budget = {budget}", text)
    text = re.sub(r"(?m)^planned = .*$", f"planned = {planned}", text)
    text = re.sub(r"(?m)^horizon = .*$", f"horizon = {horizon}", text)
    text = re.sub(r'(?m)^policy = "PACE"', f'policy = "{policy}"', text)
    if shared:
        text = text.replace("[study]\n", "[study]\nbudget_shared = true\n")
    if hard:
        text = re.sub(r"(?m)^budget_kind = .*$", 'budget_kind = "hard"', text)
    if pooled:
        value = "true" if pooled is True else f'"{pooled}"'
        text = text.replace('kind = "PACE"\n', f'kind = "PACE"\npooled = {value}\n', 1)
    return text + extra


def numeric(text: str) -> str:
    """The study with a number among its variables: contexts are not a finite set."""
    text = text.replace("probabilities = [0.5, 0.3, 0.15, 0.05]", 'distribution = { kind = "uniform" }')
    return re.sub(r"(?m)^known = .*$", "known = false", re.sub(r"(?m)^probabilities = .*\n", "", text))
