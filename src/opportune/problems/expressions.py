"""Arithmetic inside a formula, such as log1p(steps) or I((sleep - 7)**2), as operations that compiled code can run.

Only what is listed here gets through; everything else in the text is refused, so that a formula cannot run code.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm import features as op

Floats = NDArray[np.float64]
Operation = tuple[int, float]
"""An operation of `algorithm.features` and its argument; that of TABLE is the variable whose levels it looks up."""
Operations = tuple[Operation, ...]

FUNCTIONS = {"log": op.LOG, "log1p": op.LOG1P, "exp": op.EXP, "sqrt": op.SQRT, "abs": op.ABS}
ALLOWED = "numbers, numeric variables, + - * / **, log, log1p, exp, sqrt, abs and I(...)"
IDENTITY = "I"
MOST_POWER = 8
MOST_DEPTH = 50
LARGEST = 1e30
"""Numbers beyond this cannot be multiplied, squared and summed up safely."""

_SIGNS: dict[type[ast.operator], int] = {
    ast.Add: op.ADD, ast.Sub: op.SUBTRACT, ast.Mult: op.MULTIPLY, ast.Div: op.DIVIDE,
}  # fmt: skip
_BINARY: dict[int, Callable[[Any, Any], Any]] = {
    op.ADD: np.add, op.SUBTRACT: np.subtract, op.MULTIPLY: np.multiply, op.DIVIDE: np.divide,
}  # fmt: skip
_FUNCTIONS: dict[int, Callable[[Any], Any]] = {
    op.NEGATE: np.negative, op.LOG: np.log, op.LOG1P: np.log1p, op.EXP: np.exp, op.SQRT: np.sqrt, op.ABS: np.abs,
}  # fmt: skip


def compile_expression(text: str, variables: Mapping[str, Operations]) -> Operations:
    """The operations that compute an expression.

    Args:
        text: the expression, as Python writes it.
        variables: for each name that may occur, the operations that fetch its value.

    Raises:
        ValueError: saying which part of the text is not allowed.

    """
    operations, constant = _compiled(parse(text), variables, 0)
    if constant is not None:
        raise ValueError(f"{text!r} has no variable in it")
    return operations


def run(operations: Operations, values: Sequence[Any], tables: Mapping[int, Floats],
        divided_by: Callable[[Any], None] = lambda _: None) -> Any:  # fmt: skip
    """The value of an atom, for numbers or arrays alike; `divided_by` is called with every divisor."""
    stack: list[Any] = []
    with np.errstate(all="ignore"):
        for operation, argument in operations:
            if operation == op.NUMBER:
                stack.append(argument)
            elif operation == op.VALUE:
                stack.append(values[int(argument)])
            elif operation < op.ADD:
                top = stack.pop()
                if operation == op.POWER and argument < 0.0:
                    divided_by(top)
                stack.append(_unary(operation, argument, top, tables))
            else:
                right, left = stack.pop(), stack.pop()
                if operation == op.DIVIDE:
                    divided_by(right)
                stack.append(_BINARY[operation](left, right))
    return stack[0]


def parse(text: str) -> ast.expr:
    """An expression's syntax tree."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{text!r} cannot be read; expected {ALLOWED}") from None


def called_name(node: ast.expr) -> str | None:
    """The name of the function that a call calls, without np.; None if it is no such call."""
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "np":
        return function.attr if function.attr in FUNCTIONS else None
    return function.id if isinstance(function, ast.Name) else None


def _compiled(node: ast.expr, variables: Mapping[str, Operations], depth: int) -> tuple[Operations, float | None]:
    """A part's operations, and its value where it has no variable in it."""
    if depth > MOST_DEPTH:
        raise ValueError(f"an expression is nested more than {MOST_DEPTH} deep")
    if isinstance(node, ast.Constant):
        number = _number(node)
        return ((op.NUMBER, number),), number
    if isinstance(node, ast.Name):
        if node.id not in variables:
            raise ValueError(f"`{node.id}` is not a numeric variable")
        return variables[node.id], None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        inner = _compiled(node.operand, variables, depth + 1)
        return inner if isinstance(node.op, ast.UAdd) else _joined(op.NEGATE, 0.0, inner)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent = _exponent(node.right)
        return _joined(op.POWER, exponent, _compiled(node.left, variables, depth + 1))
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        left = _compiled(node.left, variables, depth + 1)
        return _joined(_SIGNS[type(node.op)], 0.0, left, _compiled(node.right, variables, depth + 1))
    name = called_name(node)
    if name in FUNCTIONS or name == IDENTITY:
        inner = _compiled(_only_argument(node, variables), variables, depth + 1)
        return inner if name == IDENTITY else _joined(FUNCTIONS[name], 0.0, inner)
    raise ValueError(f"{ast.unparse(node)!r} is not allowed; expected {ALLOWED}")


def _joined(
    operation: int, argument: float, *parts: tuple[Operations, float | None]
) -> tuple[Operations, float | None]:
    """An operation applied to parts; numbers are worked out at once, so that they cannot grow beyond use."""
    constants = [constant for _, constant in parts if constant is not None]
    if len(constants) < len(parts):
        return (*(step for operations, _ in parts for step in operations), (operation, argument)), None
    numbers: Operations = tuple((op.NUMBER, constant) for constant in constants)
    value = float(run((*numbers, (operation, argument)), (), {}))
    if not abs(value) <= LARGEST:
        raise ValueError(f"a number in it comes to {value:g}; expected at most {LARGEST:g}")
    return ((op.NUMBER, value),), value


def _number(node: ast.Constant) -> float:
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        raise ValueError(f"{ast.unparse(node)!r} is not allowed; expected {ALLOWED}")
    if not abs(node.value) <= LARGEST:
        raise ValueError(f"a number in it is beyond {LARGEST:g}")
    return float(node.value)


def _exponent(node: ast.expr) -> float:
    """The exponent of a power: a number from -8 to 8, as written."""
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1.0
    if not isinstance(node, ast.Constant):
        raise ValueError(f"the power {ast.unparse(node)!r} is not a number; expected one from -8 to 8")
    exponent = sign * _number(node)
    if abs(exponent) > MOST_POWER:
        raise ValueError(f"the power {exponent:g} is beyond {MOST_POWER}; expected a number from -8 to 8")
    return exponent


def _only_argument(node: ast.expr, variables: Mapping[str, Operations]) -> ast.expr:
    """What a function is called with, which must be one thing."""
    name = called_name(node)
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) != 1 or isinstance(node.args[0], ast.Starred):
        raise ValueError(f"{ast.unparse(node)!r} is not allowed; expected {name} of one expression")
    if name in variables or ("np" in variables and isinstance(node.func, ast.Attribute)):
        raise ValueError(f"{ast.unparse(node.func)!r} is called as a function, and a variable has that name")
    return node.args[0]


def _unary(operation: int, argument: float, top: Any, tables: Mapping[int, Floats]) -> Any:
    if operation == op.EQUALS:
        return np.equal(top, argument).astype(np.float64)
    if operation == op.TABLE:
        return tables[int(argument)][np.asarray(top, dtype=int)]
    if operation == op.POWER:
        return _power(top, argument)
    return _FUNCTIONS[operation](top)


def _power(base: Any, exponent: float) -> Any:
    """base^exponent as `algorithm.features.power` has it: whole exponents by multiplication."""
    if not exponent.is_integer():
        return np.power(base, exponent)
    product = np.ones_like(base, dtype=np.float64)
    for _ in range(abs(int(exponent))):
        product = product * base
    return product if exponent >= 0.0 else np.divide(1.0, product)
