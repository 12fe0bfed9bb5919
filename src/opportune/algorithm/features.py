"""Features at the moment of decision: a formula as a small program that compiled code runs.

A feature is a product of atoms. An atom is a postfix program over the moment's values: the variables of the context
and, in the last slot, the action. Variables with levels contain the number of their level, counted from 0.

    code[2 * i], code[2 * i + 1]    operation i and its argument; tables of numbers may follow the last operation
    atom_end[n]                     the operation after the last one of atom n
    factors[j * width + i]          the atoms of feature j: number + 1, or 0 for none
"""

import math

from opportune.engine.compiled import dual_function, step_function

# Operations that push a value on the stack: a number, or one of the moment's values.
NUMBER = 0
VALUE = 1
# Operations on the topmost value v, with argument c.
EQUALS = 2  # 1 where v = c, else 0
TABLE = 3  # the number of level v, in the table that begins at code[c]
POWER = 4  # v^c
NEGATE = 5
LOG = 6
LOG1P = 7
EXP = 8
SQRT = 9
ABS = 10
# Operations on the two topmost values.
ADD = 11
SUBTRACT = 12
MULTIPLY = 13
DIVIDE = 14


@step_function
def power(base, exponent):  # type: ignore[no-untyped-def]
    """base^exponent; whole exponents up to 8 by multiplication, for the same result on every device."""
    whole = int(exponent)
    if whole != exponent:
        return math.pow(base, exponent)
    product = 1.0
    for _ in range(abs(whole)):
        product *= base
    if whole >= 0:
        return product
    return 1.0 / product if product != 0.0 else math.inf


@step_function
def unary(operation, argument, v, code):  # type: ignore[no-untyped-def]  # noqa: PLR0911  (one per operation)
    """The result of an operation on the topmost value."""
    if operation == EQUALS:
        return 1.0 if v == argument else 0.0
    if operation == TABLE:
        return code[int(argument) + int(v)]
    if operation == POWER:
        return power(v, argument)
    if operation == NEGATE:
        return -v
    if operation == LOG:
        return math.log(v)
    if operation == LOG1P:
        return math.log1p(v)
    if operation == EXP:
        return math.exp(v)
    if operation == SQRT:
        return math.sqrt(v)
    return abs(v)


@step_function
def binary(operation, left, right):  # type: ignore[no-untyped-def]
    """The result of an operation on the two topmost values."""
    if operation == ADD:
        return left + right
    if operation == SUBTRACT:
        return left - right
    if operation == MULTIPLY:
        return left * right
    return left / right if right != 0.0 else math.inf  # formulas are checked beforehand; nothing here may raise


@step_function
def write_atoms(code, atom_end, first, last, values, stack, atom_values):  # type: ignore[no-untyped-def]
    """Evaluate atoms first..last-1 into atom_values, where the stack begins at `stack`."""
    at = int(atom_end[first - 1]) if first > 0 else 0
    for atom in range(first, last):
        end = int(atom_end[atom])
        top = 0.0
        depth = stack
        while at < end:
            operation = int(code[2 * at])
            argument = code[2 * at + 1]
            if operation <= VALUE:
                atom_values[depth] = top
                depth += 1
                top = argument if operation == NUMBER else values[int(argument)]
            elif operation < ADD:
                top = unary(operation, argument, top, code)
            else:
                depth -= 1
                top = binary(operation, atom_values[depth], top)
            at += 1
        atom_values[atom] = top


@dual_function
def write_features(code, atom_end, factors, shared, atoms, width, d, actions, values, action_variable, atom_values, x):  # type: ignore[no-untyped-def]
    """Write the features of every action into x: feature j of action a is x[a * d + j].

    Args:
        code: the operations of all atoms.
        atom_end: the end of each atom.
        factors: the atoms of each feature.
        shared: the number of atoms, all at the front, that do not depend on the action.
        atoms: the total number of atoms.
        width: the most atoms in any feature.
        d: the number of features.
        actions: the number of actions.
        values: the moment's values; the action's is written here.
        action_variable: the action's index in `values`.
        atom_values: space for the atoms' values, followed by the stack.
        x: space for the features.

    """
    write_atoms(code, atom_end, 0, shared, values, atoms, atom_values)
    for action in range(actions):
        values[action_variable] = action
        write_atoms(code, atom_end, shared, atoms, values, atoms, atom_values)
        for j in range(d):
            product = 1.0
            for i in range(width):
                atom = int(factors[j * width + i])
                if atom > 0:
                    product *= atom_values[atom - 1]
            x[action * d + j] = product
