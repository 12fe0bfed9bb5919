"""A condition of `never_if` in words: `pain == "strong" or day < 3` as "Chest pain is strong or day is below 3"."""

import ast
from typing import Any

from opportune.study.naming import value_name, variable_name
from opportune.study.schema import StudyFile

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "is", ast.NotEq: "is not", ast.Lt: "is below", ast.LtE: "is at most", ast.Gt: "is above",
    ast.GtE: "is at least", ast.In: "is one of", ast.NotIn: "is none of",
}  # fmt: skip
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
}  # fmt: skip


def condition_in_words(settings: StudyFile, text: str) -> str:
    """A checked condition in the study's words."""
    return _words(settings, ast.parse(text.strip(), mode="eval").body, inside=False)


def _words(settings: StudyFile, node: ast.expr, *, inside: bool) -> str:
    if isinstance(node, ast.BoolOp):
        joined = " and " if isinstance(node.op, ast.And) else " or "
        text = joined.join(_words(settings, value, inside=True) for value in node.values)
        return f"({text})" if inside else text
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"it is not so that {_words(settings, node.operand, inside=True)}"
    if isinstance(node, ast.Compare):
        return _compared(settings, node)
    return ast.unparse(node)


def _compared(settings: StudyFile, node: ast.Compare) -> str:
    """One comparison, or a chain of them."""
    parts, left = [], node.left
    for sign, right in zip(node.ops, node.comparators, strict=True):
        one, other, kind = left, right, type(sign)
        if not isinstance(one, ast.Name) and isinstance(other, ast.Name):
            one, other, kind = other, one, _TURNED.get(kind, kind)
        name = one.id if isinstance(one, ast.Name) else ast.unparse(one)
        parts.append(f"{variable_name(settings, name)} {_SIGNS[kind]} {_value(settings, name, other)}")
        left = right
    return " and ".join(parts)


def _value(settings: StudyFile, name: str, node: ast.expr) -> str:
    try:
        value: Any = ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)
    values = list(value) if isinstance(value, list | tuple | set) else [value]
    return ", ".join(value_name(settings, name, one) for one in values)
