"""Conditions: the small language of `when:`, as in `N >= 2^12 and not causal`.

A condition compares a cell's axes and parameters with constants, joined by and, or, not. Nothing else is evaluated.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from attnbench.schema.cell import CONDITIONS
from attnbench.schema.model import Model
from attnbench.schema.noun import Scalar
from attnbench.schema.training import Training

_PROBLEM = {"B", "H", "N", "D", "M", "kv_heads", "dtype", "causal", "padding"}
_CELL = {"workload", "device", "batch", "new_tokens", "packed", "compile"}
NAMES = frozenset({*_PROBLEM, *_CELL, *CONDITIONS, *Training.model_fields, *Model.model_fields})
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_LONGEST, _DEEPEST = 1000, 50


def compile_condition(text: str, params: frozenset[str] | None = frozenset()) -> Callable[[Mapping[str, Scalar]], bool]:
    """Return a predicate over a cell's axes and parameters. `params` None allows any name.

    Raises ValueError, which says what is wrong and what is allowed.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"a condition of over {_LONGEST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{text!r} is not a condition; write one like N >= 4096 and not causal") from None
    # counted without recursion, which a deep tree would exhaust
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ValueError(f"a condition nested more than {_DEEPEST} deep")
    _refuse_what_is_not_allowed(tree, None if params is None else NAMES | params)
    return lambda values: bool(_value(tree, values))


def _refuse_what_is_not_allowed(tree: ast.expr, names: frozenset[str] | None) -> None:
    """Raise ValueError, before anything is evaluated, for whatever the small language does not have."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if names is not None and name not in names:
                raise ValueError(f"unknown name {name!r}; allowed: {', '.join(sorted(names))}")
            case ast.Constant(value=value) if not isinstance(value, bool | int | float | str):
                raise ValueError(f"{value!r} is not a number, a text, True or False")
            case ast.Name() | ast.Constant() | ast.BoolOp() | ast.Tuple() | ast.List() | ast.UnaryOp(op=ast.Not() | ast.USub()):
                continue
            case ast.BinOp(op=op) if type(op) in _ARITHMETIC or _is_power(node):
                continue
            case ast.Compare(ops=ops) if all(type(op) in _COMPARE for op in ops):
                continue
            case ast.expr():
                raise ValueError(f"{ast.unparse(node)!r} is not allowed; use comparisons, and, or, not, + - * // % ^")


def _is_power(node: ast.BinOp) -> bool:
    """Say whether this is a power such as `2^12`, of two small plain numbers, so that no result can grow without bound."""
    sides = (node.left, node.right)
    plain = all(isinstance(side, ast.Constant) and isinstance(side.value, int) and 0 <= side.value <= 64 for side in sides)
    return plain and isinstance(node.op, ast.BitXor | ast.Pow)


def _value(node: ast.expr, values: Mapping[str, Scalar]) -> Any:  # noqa: ANN401 - a constant, a list or a truth value
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values.get(name)
        case ast.BoolOp(op=op, values=parts):
            results = (_value(part, values) for part in parts)
            return all(results) if isinstance(op, ast.And) else any(results)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [_value(part, values) for part in parts]
        case ast.UnaryOp(op=op, operand=operand):
            inner = _value(operand, values)
            return not inner if isinstance(op, ast.Not) else _calculate(node, operator.neg, inner)
        case ast.Compare(left=first, ops=ops, comparators=others):
            left = _value(first, values)
            for comparison, part in zip(ops, others, strict=True):
                right = _value(part, values)
                try:
                    if not _COMPARE[type(comparison)](left, right):
                        return False
                except TypeError:
                    raise ValueError(f"{ast.unparse(node)!r} compares {left!r} with {right!r}") from None
                left = right
            return True
        case ast.BinOp(left=left, op=op, right=right):
            apply = operator.pow if _is_power(node) else _ARITHMETIC[type(op)]
            return _calculate(node, apply, _value(left, values), _value(right, values))
    raise AssertionError(f"unchecked node {node!r}")


def _calculate(node: ast.expr, apply: Callable[..., Any], *operands: Any) -> Any:  # noqa: ANN401
    """Apply an operation to numbers only: a text times a number, or formatted by one, could grow without bound."""
    if not all(isinstance(operand, int | float) for operand in operands):
        raise ValueError(f"{ast.unparse(node)!r} calculates with {' and '.join(map(repr, operands))}")
    try:
        return apply(*operands)
    except ArithmeticError as error:
        raise ValueError(f"{ast.unparse(node)!r}: {error}") from None
