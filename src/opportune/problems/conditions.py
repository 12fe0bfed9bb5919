"""Conditions under which an action is forbidden, such as `pain == "strong" or day_of_study < 3`.

A condition compares variables with numbers or levels (==, !=, <, <=, >, >=, in) and joins comparisons by and, or, not
and parentheses. It becomes operations of `algorithm.masks`, and is evaluated here in NumPy at many points at once.
"""

import ast
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm import masks as op
from opportune.engine.declared import PUBLIC_PART, SENSED_PART, WHOLE
from opportune.errors import InputError
from opportune.problems.variables import DayOfStudy, Variable, bounds_of, entered_as_numbers, levels_of

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Operation = tuple[int, int, tuple[float, ...]]
"""An operation of `algorithm.masks`, its variable and its number; for a look at levels, the truth of each of them."""

WHEN_UNKNOWN = ("forbid", "allow")
MOST_CHARACTERS = 2_000
MOST_DEPTH = 50
MOST_MOMENTS = 65_536
EXPECTED = "comparisons of a variable with a number or a level, joined by and, or, not"
VIEWS = {"public": PUBLIC_PART, "sensed": SENSED_PART, "reported": WHOLE}
"""Who sees a variable, by its visibility: those with this view of a moment, and with any wider one."""

_SIGNS: dict[type[ast.cmpop], int] = {
    ast.Lt: op.BELOW, ast.LtE: op.AT_MOST, ast.Gt: op.ABOVE, ast.GtE: op.AT_LEAST, ast.Eq: op.SAME, ast.NotEq: op.OTHER,
}  # fmt: skip
_TURNED = {op.BELOW: op.ABOVE, op.ABOVE: op.BELOW, op.AT_MOST: op.AT_LEAST, op.AT_LEAST: op.AT_MOST}
_COMPARE: dict[int, Callable[[Any, Any], Any]] = {
    op.BELOW: np.less, op.AT_MOST: np.less_equal, op.ABOVE: np.greater, op.AT_LEAST: np.greater_equal,
    op.SAME: np.equal, op.OTHER: np.not_equal,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """When an action is forbidden.

    Args:
        text: as it was written.
        operations: in postfix order.
        in_doubt: whether the action is also forbidden where that depends on something unseen.

    """

    text: str
    operations: tuple[Operation, ...]
    in_doubt: bool

    @property
    def variables(self) -> frozenset[int]:
        """The places of the variables that it compares."""
        return frozenset(v for operation, v, _ in self.operations if operation > op.NEITHER)

    def truth(self, values: Floats, seen: Sequence[bool]) -> Floats:
        """How true it is at values[n, variables], 0, 1/2 or 1, to somebody who sees these variables."""
        stack: list[Floats] = []
        for operation, v, numbers in self.operations:
            if operation == op.NEITHER:
                stack.append(1.0 - stack.pop())
            elif operation <= op.EITHER:
                right, left = stack.pop(), stack.pop()
                stack.append(np.minimum(left, right) if operation == op.BOTH else np.maximum(left, right))
            elif not seen[v]:
                stack.append(np.full(len(values), op.UNKNOWN))
            elif operation == op.LEVEL:
                stack.append(np.array(numbers)[values[:, v].astype(int)])
            else:
                stack.append(_COMPARE[operation](values[:, v], numbers[0]).astype(np.float64))
        return stack[0]

    def forbids(self, values: Floats, seen: Sequence[bool]) -> Mask:
        """Whether the action is forbidden at values[n, variables] to somebody who sees these variables."""
        true = self.truth(values, seen)
        return np.asarray(true >= op.UNKNOWN if self.in_doubt else true >= 1.0)


class Conditions:
    """When actions are forbidden: {number of the action: condition}, checked, and as compiled code takes them.

    Args:
        never_if: {action: condition}, or None.
        when_unknown: {action: "forbid" or "allow"}, for conditions that use what is not public.
        actions: names of the actions.
        variables: what conditions may compare.
        visibility: who sees each variable.

    """

    def __init__(
        self, never_if: Any, when_unknown: Any, actions: Sequence[str], variables: Mapping[str, Variable],
        visibility: Mapping[str, str],
    ) -> None:  # fmt: skip
        texts = {} if never_if is None else checks.mapping("never_if", never_if, "{action: condition}")
        doubts = check_when_unknown(when_unknown, actions)
        self.actions, self.variables = len(actions), variables
        self.sight = [VIEWS[visibility[name]] for name in variables]
        self.settings = {"never_if": texts or None, "when_unknown": doubts or None}
        self.of: dict[int, Condition] = {}
        for action, text in texts.items():
            checks.choice("action in never_if", action, actions)
            operations = _Reader(f"never_if of {action!r}", text, variables).operations
            hidden = [v for kind, v, _ in operations if kind > op.NEITHER and self.sight[v] != PUBLIC_PART]
            if hidden and action not in doubts:
                raise InputError(
                    f"never_if of {action!r} uses {list(variables)[hidden[0]]!r}, which is not always known; "
                    f"expected when_unknown={{{action!r}: 'forbid' or 'allow'}}"
                )
            self.of[list(actions).index(action)] = Condition(text, operations, doubts.get(action, "forbid") == "forbid")
        for action in doubts:
            if action not in texts:
                raise InputError(f"when_unknown has {action!r}; expected only actions that never_if has")
        self._check_some_allowed()

    @property
    def always_allowed(self) -> tuple[int, ...]:
        """The numbers of the actions that are never forbidden."""
        return tuple(a for a in range(self.actions) if a not in self.of)

    @property
    def sizes(self) -> dict[str, Any]:
        """What a layout must know."""
        code = self.parts.get("condition", ())
        return {"masked": bool(self.of), "condition": len(code), "truths": max(map(len, self._operations), default=0)}

    @cached_property
    def parts(self) -> dict[str, Any]:
        """The parts of engine.declared.Constants that say when actions are forbidden."""
        if not self.of:
            return {}
        operations = [each for action in self._operations for each in action]
        code: list[float] = []
        tables: list[float] = []
        for operation, v, numbers in operations:
            number = numbers[0] if numbers else 0.0
            if operation == op.LEVEL:
                number = 3.0 * len(operations) + len(tables)
                tables += numbers
            code += [float(operation), float(v), number]
        sure = [a in self.of and not self.of[a].in_doubt for a in range(self.actions)]
        return {
            "condition": [*code, *tables],
            "condition_end": np.cumsum([len(each) for each in self._operations], dtype=np.float64),
            "doubt": np.where(sure, 1.0, op.UNKNOWN),
            "sight": self.sight,
        }

    @property
    def _operations(self) -> list[tuple[Operation, ...]]:
        return [self.of[a].operations if a in self.of else () for a in range(self.actions if self.of else 0)]

    def forbidden(self, values: Floats, view: int) -> Mask:
        """What is forbidden at values[n, variables] to who has this view: [n, A]."""
        seen = [sight <= view for sight in self.sight]
        found = np.zeros((len(values), self.actions), dtype=np.bool_)
        for a, condition in self.of.items():
            found[:, a] = condition.forbids(values, seen)
        return found

    def _check_some_allowed(self) -> None:
        """Refuse conditions that leave no action in some moment, to whoever sees a part of it."""
        if len(self.of) < self.actions:
            return  # an action without a condition is always allowed
        used, values = moments_of(self.of, self.variables)
        names = list(self.variables)
        for view in (WHOLE, PUBLIC_PART, SENSED_PART):
            told = [v for v in used if self.sight[v] <= view]
            none = np.flatnonzero(self.forbidden(values, view).all(axis=1))
            if none.size:
                found = [f"{names[v]} = {_shown(self.variables[names[v]], values[none[0], v])}" for v in told]
                raise no_action(", ".join(found), in_doubt=len(told) < len(used))


def no_action(moment: str, *, in_doubt: bool) -> InputError:
    """The error that says in which moment no action is allowed; `in_doubt`, where some of it is not seen."""
    reason = " (each is forbidden, or may be by what is not seen)" if in_doubt else ""
    where = f"where {moment}" if moment else "where nothing is known"
    return InputError(f"no action is allowed {where}{reason}; expected at least one in every moment")


def check_when_unknown(given: Any, actions: Sequence[str]) -> dict[str, str]:
    """{action: "forbid" or "allow"}, for actions that are sometimes forbidden."""
    doubts = {} if given is None else checks.mapping("when_unknown", given, "{action: 'forbid' or 'allow'}")
    for action, doubt in doubts.items():
        checks.choice("action in when_unknown", action, actions)
        checks.choice(f"when_unknown of {action!r}", doubt, WHEN_UNKNOWN)
    return doubts


def moments_of(conditions: Mapping[int, Condition], variables: Mapping[str, Variable]) -> tuple[list[int], Floats]:
    """(places, values[n, variables]): moments that conditions can tell apart, and the variables that they compare.

    A number is tried at its bounds, at each number that it is compared with, and halfway between neighbours of these.
    """
    used = sorted(frozenset().union(*(c.variables for c in conditions.values())))
    given = list(variables.values())
    axes = [_tried(given[v], v, conditions.values()) for v in used]
    size = math.prod(len(axis) for axis in axes)
    if size > MOST_MOMENTS:
        raise InputError(f"conditions tell {size} moments apart; expected at most {MOST_MOMENTS}")
    values = np.zeros((size, len(given)))
    values[:, used] = np.array(list(itertools.product(*axes)), dtype=np.float64).reshape(size, -1)
    return used, values


def _tried(variable: Variable, v: int, conditions: Any) -> list[float]:
    bounds = bounds_of(variable)
    if bounds is None:
        return [float(i) for i in range(len(levels_of(variable) or ()))]
    compared = {n[0] for c in conditions for kind, place, n in c.operations if kind > op.NEITHER and place == v}
    points = sorted({bounds.low, bounds.high, *(x for x in compared if bounds.low <= x <= bounds.high)})
    return sorted({*points, *(a + 0.5 * (b - a) for a, b in itertools.pairwise(points))})


class _Reader:
    """Reads a condition; refuses what is not one, with its place."""

    def __init__(self, who: str, text: Any, variables: Mapping[str, Variable]) -> None:
        self.who, self.variables = who, variables
        self.text = checks.text(who, text)
        checks.size(f"{who} has", len(self.text), MOST_CHARACTERS, "characters")
        try:
            node = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            place = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
            raise InputError(f"{who} is {self.text!r}, which cannot be read{place}; expected {EXPECTED}") from None
        self.operations = tuple(self._read(node, 0))

    def _refuse(self, node: ast.AST, reason: str) -> InputError:
        place = getattr(node, "col_offset", 0) + 1
        return InputError(f"{self.who}: {ast.unparse(node)!r} at character {place} {reason}")

    def _read(self, node: ast.expr, depth: int) -> list[Operation]:
        if depth > MOST_DEPTH:
            raise InputError(f"{self.who} is nested more than {MOST_DEPTH} deep")
        if isinstance(node, ast.BoolOp):
            sign = op.BOTH if isinstance(node.op, ast.And) else op.EITHER
            return _joined(sign, [self._read(each, depth + 1) for each in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return [*self._read(node.operand, depth + 1), (op.NEITHER, 0, ())]
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            return _joined(op.BOTH, [self._comparison(node, *pair) for pair in pairs])
        raise self._refuse(node, f"is not allowed; expected {EXPECTED}")

    def _comparison(self, node: ast.expr, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> list[Operation]:
        if isinstance(sign, ast.In | ast.NotIn):
            return self._among(node, left, right, inverted=isinstance(sign, ast.NotIn))
        if type(sign) not in _SIGNS:
            raise self._refuse(node, "is not allowed; expected ==, !=, <, <=, >, >= or in")
        kind = _SIGNS[type(sign)]
        if not isinstance(left, ast.Name) and isinstance(right, ast.Name):
            left, right, kind = right, left, _TURNED.get(kind, kind)
        v, variable = self._variable(left)
        constant = self._constant(right)
        levels = levels_of(variable)
        if levels is None:
            return [(kind, v, (self._number(right, constant, variable),))]
        if kind in {op.SAME, op.OTHER}:
            place = self._level(right, constant, levels)
            return [(op.LEVEL, v, tuple(float((i == place) == (kind == op.SAME)) for i in range(len(levels))))]
        if not entered_as_numbers(levels) or isinstance(constant, str | bool):
            raise self._refuse(node, "compares levels by size; expected == or in, or levels that are numbers")
        return [(op.LEVEL, v, tuple(float(_COMPARE[kind](level, constant)) for level in levels))]

    def _among(self, node: ast.expr, left: ast.expr, right: ast.expr, *, inverted: bool) -> list[Operation]:
        v, variable = self._variable(left)
        if not isinstance(right, ast.List | ast.Tuple | ast.Set) or not right.elts:
            raise self._refuse(right, 'is not a list; expected one such as ["mild", "strong"]')
        levels = levels_of(variable)
        if levels is None:
            each = [self._number(e, self._constant(e), variable) for e in right.elts]
            found = _joined(op.EITHER, [[(op.SAME, v, (number,))] for number in each])
            return [*found, (op.NEITHER, 0, ())] if inverted else found
        places = {self._level(e, self._constant(e), levels) for e in right.elts}
        return [(op.LEVEL, v, tuple(float((i in places) != inverted) for i in range(len(levels))))]

    def _variable(self, node: ast.expr) -> tuple[int, Variable]:
        if not isinstance(node, ast.Name):
            raise self._refuse(node, f"is not a variable; expected one of {list(self.variables)}")
        if node.id not in self.variables:
            raise self._refuse(node, f"is not present among the variables {list(self.variables)}")
        return list(self.variables).index(node.id), self.variables[node.id]

    def _constant(self, node: ast.expr) -> Any:
        negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        inner = node.operand if isinstance(node, ast.UnaryOp) and negative else node
        value = inner.value if isinstance(inner, ast.Constant) else None
        if value is None or not isinstance(value, str | bool | int | float) or (negative and isinstance(value, str)):
            raise self._refuse(node, "is not a number or a level in quotes")
        return -value if negative and not isinstance(value, str) else value

    def _number(self, node: ast.expr, value: Any, variable: Variable) -> float:
        if isinstance(value, str | bool):
            raise self._refuse(node, "is not a number")
        number = checks.real(f"{self.who}: a number", value)
        if isinstance(variable, DayOfStudy):  # conditions count days, whatever formulas do
            return (number - variable.centre) / variable.scale
        return number

    def _level(self, node: ast.expr, value: Any, levels: Sequence[Any]) -> int:
        for i, level in enumerate(levels):
            if level == value and isinstance(level, bool) == isinstance(value, bool):
                return i
        raise self._refuse(node, f"is not one of the levels {checks.brief(list(levels))}")


def _shown(variable: Variable, number: float) -> str:
    """A variable's value as conditions write it."""
    levels = levels_of(variable)
    if levels is not None:
        return f"{levels[int(number)]}"
    if isinstance(variable, DayOfStudy):
        return f"{variable.centre + variable.scale * number:g}"
    return f"{number:g}"


def _joined(sign: int, parts: Sequence[list[Operation]]) -> list[Operation]:
    """Parts one after the other, each but the first followed by the sign that joins it to those before."""
    joined = list(parts[0])
    for part in parts[1:]:
        joined += [*part, (sign, 0, ())]
    return joined
