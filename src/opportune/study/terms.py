"""Messages about reward formulas and the names of their terms."""

import difflib
import re
from collections.abc import Iterator, Sequence

from opportune.problems.terms import normal_term
from opportune.study.messages import did_you_mean

FUNCTIONS = ("C", "I", "abs", "center", "exp", "log", "log1p", "scale", "sqrt")
"""The functions that a formula may use."""


def nearest_term(key: str, terms: Sequence[str]) -> tuple[str, str]:
    """A hint at the term that was probably meant, and this term ("" if none is close)."""
    normal_terms = {normal_term(term): term for term in terms}
    near = difflib.get_close_matches(normal_term(key), normal_terms, n=1)
    if near:
        return f"did you mean {normal_terms[near[0]]!r}?", normal_terms[near[0]]
    return f"expected one of {', '.join(map(repr, terms))}", ""


def formula_errors(formula: str, variables: list[str]) -> Iterator[str]:
    """Find words and signs that a formula must not contain."""
    words = re.findall(r"[^\W\d]\w*|\d+(?:\.\d+)?|[-+*/:^(),\s]|.", formula)
    for word in dict.fromkeys(words):
        if word.isidentifier() and word not in (*variables, "action", *FUNCTIONS):
            hint = did_you_mean(word, [*variables, "action"])
            yield f"formula in [reward] names {word!r}, which is not a variable{hint}"
    signs = [sign for sign in dict.fromkeys(words) if not re.fullmatch(r"\w+|\d+\.\d+|[-+*/:^(),\s]", sign)]
    if signs:
        yield f"formula in [reward] contains {' '.join(signs)}; expected variables, numbers and + - * / : ^ ( ) ,"
    if "action" not in words:
        yield "formula in [reward] does not name action; expected it, or every action would be worth the same"
