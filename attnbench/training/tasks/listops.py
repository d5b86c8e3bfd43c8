"""ListOps: the value of a nested expression over digits.

The shape of an expression is where its operators and digits stand, and which are the arguments of each operator.
Suffixes: B sequences, S shapes, N tokens, K operators, A arguments.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count as endless

import torch
from torch import Tensor

from attnbench.training.tasks.task_data import Alphabet, Batch, Chance, TaskData

DIGITS = 10
OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
MIN, END, QUERY, PAD = DIGITS, DIGITS + len(OPERATORS), DIGITS + len(OPERATORS) + 1, DIGITS + len(OPERATORS) + 2
VOCABULARY = PAD + 1
_FEWEST, _MOST, _DEEPEST = 2, 5, 10
_SHAPES = 1024
_SEED, _HELD_OUT_SEED, _CHANCE_SEED = 0xA511E9B3, 0xC2B2AE35, 0x85EBCA6B
Operator = list["Operator | None"]
"""The arguments of an operator: each is another operator, or None, which is a digit."""


@dataclass(frozen=True)
class Shapes:
    """S expressions, in which 0 stands for any digit and MIN for any operator.

    `operator` [S, K] has the places of the operators, the outermost first; `argument` [S, K, A] those of their arguments.
    Absent ones are at place N.
    """

    template: Tensor
    operator: Tensor
    argument: Tensor
    depth: int


def grow(longest: int, draws: Iterator[float]) -> tuple[Operator, int]:
    """Grow an expression: random digits become operators until the next one would not fit. Returns its length too."""
    root: Operator = [None] * _pick(_FEWEST, min(_MOST, longest - 2), draws)
    length = len(root) + 2
    # each with the depth that an operator in its place would have
    digits = [(root, i, 2) for i in range(len(root))]
    while digits:
        count = _pick(_FEWEST, _MOST, draws)
        # a digit is replaced by an operator, its arguments and its end
        if (length := length + count + 1) > longest:
            return root, length - count - 1
        parent, i, depth = digits.pop(_pick(0, len(digits) - 1, draws))
        operator: Operator = [None] * count
        parent[i] = operator
        digits += [(operator, j, depth + 1) for j in range(count)] if depth < _DEEPEST else []
    return root, length


def make_shapes(count: int, N: int, seed: int) -> Shapes:
    """Make shapes of N/4 to N - 1 tokens, which end right before the query; padding fills the room before them."""
    source = torch.Generator().manual_seed(seed)
    draws = (number for _ in endless() for number in torch.rand(4096, generator=source).tolist())
    grown = (grow(_pick(max(4, N // 4), N - 1, draws), draws) for _ in range(count))
    tokens, operators, depths = zip(*(_written(root, N - 1 - length) for root, length in grown), strict=True)
    most = max(map(len, operators))
    operator = torch.tensor([[*places, *[N] * (most - len(places))] for places in operators])
    argument = torch.full((count, most, _MOST), N)
    for s, of_shape in enumerate(operators):
        for k, places in enumerate(of_shape.values()):
            argument[s, k, : len(places)] = torch.tensor(places)
    return Shapes(torch.tensor(tokens), operator, argument, max(depths))


def _written(root: Operator, begin: int) -> tuple[list[int], dict[int, list[int]], int]:
    """Write an expression after so much padding: its tokens, the places of the arguments of each operator, and its depth."""
    tokens, depths = [PAD] * begin, []
    operators: dict[int, list[int]] = {}

    def write(node: Operator | None, depth: int) -> int:
        """Write a digit, or an operator with all that is in it, and say where it begins."""
        place = len(tokens)
        tokens.append(0 if node is None else MIN)
        if node is not None:
            depths.append(depth)
            # noted before its arguments, as the outermost operator comes first
            arguments = operators[place] = list[int]()
            arguments.extend(write(argument, depth + 1) for argument in node)
            tokens.append(END)
        return place

    write(root, 1)
    return [*tokens, QUERY], operators, max(depths)


def _pick(least: int, most: int, draws: Iterator[float]) -> int:
    return least + int(next(draws) * (most - least + 1))


class ListOps(TaskData):
    """`[MAX 2 9 [MIN 4 7 ] 0 ]`, and a query at the end, where the value is to be said: here 9.

    Nangia and Bowman 2018, arXiv:1804.06028: MIN, MAX, MED (the mean of the middle two, rounded down) and SM (the sum
    modulo 10) of 2 to 5 arguments; 10 deep at most, as in Tay et al. 2021, arXiv:2011.04006. They leave lengths
    to chance; here they are evenly distributed from N / 4 to N - 1. Operators and digits are drawn for each sequence, its
    shape is one of 1024; held-out sequences have shapes of another draw. Tokens: digits are themselves, then come the
    operators, `]`, the query, padding.
    """

    alphabet = Alphabet(VOCABULARY)

    def __init__(self, N: int) -> None:
        if N < 8:
            raise ValueError(f"an expression with its query needs N of at least 8; it is {N}")
        self.N, self.name = N, "listops"

    @cached_property
    def shapes(self) -> Shapes:
        """The shapes that are trained on."""
        return make_shapes(_SHAPES, self.N, _SEED)

    @cached_property
    def chance(self) -> Chance:
        """The score of the most frequent value in 8192 sequences; small and large values are more frequent than others."""
        generator = torch.Generator().manual_seed(_CHANCE_SEED)
        values = [self.batch(256, generator).targets[:, -1] for _ in range(8192 // 256)]
        return Chance.frequent(torch.bincount(torch.cat(values), minlength=DIGITS))

    def batch(self, B: int, generator: torch.Generator) -> Batch:
        """Draw B expressions, with shapes that are drawn with replacement."""
        return filled(self.shapes, B, generator)

    def held_out(self, count: int) -> Batch:
        """Return expressions of shapes that are drawn anew; of few tokens there are few, which are trained on too."""
        return filled(make_shapes(_SHAPES, self.N, _HELD_OUT_SEED), count, torch.Generator().manual_seed(_HELD_OUT_SEED))


def filled(shapes: Shapes, B: int, generator: torch.Generator) -> Batch:
    """Fill shapes with digits and operators, and the query's targets with the values."""
    chosen = torch.randint(len(shapes.template), (B,), generator=generator)
    template = shapes.template[chosen]
    digit = torch.randint(DIGITS, template.shape, generator=generator)
    operator = torch.randint(len(OPERATORS), template.shape, generator=generator)
    tokens = template + digit * (template < DIGITS) + operator * (template == MIN)
    targets, judged = torch.zeros_like(tokens), torch.zeros_like(tokens, dtype=torch.bool)
    targets[:, -1] = value_of(tokens, shapes.operator[chosen], shapes.argument[chosen], shapes.depth)
    judged[:, -1] = True
    return Batch(tokens, targets, judged)


def value_of(tokens: Tensor, operator_BK: Tensor, argument_BKA: Tensor, depth: int) -> Tensor:
    """Return the values [B] of whole expressions, by rounds over all operators at once; the outermost comes right last."""
    # one more place, to which absent operators and arguments point
    value = torch.nn.functional.pad(tokens, (0, 1))
    operation_BK = (value.gather(1, operator_BK) - MIN).clamp(min=0)
    absent_BKA = argument_BKA == tokens.shape[1]
    count = (~absent_BKA).sum(2, keepdim=True)
    for _ in range(depth):
        values_BKA = value.gather(1, argument_BKA.flatten(1)).view_as(argument_BKA)
        # absent arguments sort behind every digit
        ordered_BKA = values_BKA.masked_fill(absent_BKA, VOCABULARY).sort(2).values
        low, high, largest = (ordered_BKA.gather(2, place.clamp(min=0)) for place in ((count - 1) // 2, count // 2, count - 1))
        total = values_BKA.masked_fill(absent_BKA, 0).sum(2, keepdim=True)
        every = torch.cat([ordered_BKA[:, :, :1], largest, (low + high) // 2, total % DIGITS], dim=2)
        value = value.scatter(1, operator_BK, every.gather(2, operation_BK[:, :, None])[:, :, 0])
    return value.gather(1, operator_BK[:, :1])[:, 0]
