"""Causal attention within blocks, as one part of a softmax over more keys.

X samples and heads of k, R heads of q that share one, N tokens, L tokens of a block, S blocks, D query/key width, M value
width.
"""

from dataclasses import dataclass

from torch import Tensor

from ...partial.softmax import Rule, attend, pull_back
from .room import QUERIES, at_once

Inputs = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Run:
    """Tokens start … stop, cut into blocks of `length`."""

    start: int
    stop: int
    length: int

    def of(self, x: Tensor) -> Tensor:
        """Cut the tokens of x into blocks: [X, N, ...] -> [X, S, L, ...], a view."""
        cut: Tensor = x[:, self.start : self.stop].unflatten(1, (-1, self.length))
        return cut


def runs(x: Tensor, block: int) -> list[Run]:
    """Cover the tokens of x [X, N, D] with runs of whole blocks, and a shorter last block where L does not divide N."""
    N = x.shape[1]
    step, whole = blocks_together(at_once(x, QUERIES), len(x), block) * block, N - N % block
    cut = [Run(a, min(a + step, whole), block) for a in range(0, whole, step)]
    return cut if whole == N else [*cut, Run(whole, N, N - whole)]


def blocks_together(queries: int, heads: int, block: int) -> int:
    """Count the blocks of each head that are attended at a time: at least one."""
    return max(1, queries // (heads * block))


def attend_own(inputs: Inputs, out: tuple[Tensor, Tensor], block: int, scale: float) -> None:
    """Attend within blocks: [X, R, N, D], [X, N, D], [X, N, M]; writes the output [X, R, N, M] and its logsumexp [X, R, N]."""
    (q, k, v), rule = inputs, Rule(scale, causal=True)
    for run in runs(k, block):
        for r in range(q.shape[1]):
            part = attend(run.of(q[:, r]), run.of(k), run.of(v), rule)
            for into, x in zip(out, part, strict=True):
                run.of(into[:, r]).copy_(x)
            del part  # free it before the next part is made


def pull_back_own(inputs: Inputs, outputs: Inputs, gradients: Inputs, block: int, scale: float) -> None:
    """Write dq and add to dk and dv; `outputs` are dL/do, and the output and logsumexp of all parts together."""
    (q, k, v), (dq, dk, dv), rule = inputs, gradients, Rule(scale, causal=True)
    for run in runs(k, block):
        for r in range(q.shape[1]):
            g, o, logsumexp = (run.of(x[:, r]) for x in outputs)
            part = pull_back(g, (run.of(q[:, r]), run.of(k), run.of(v)), (o, logsumexp), rule)
            run.of(dq[:, r]).copy_(part[0])
            run.of(dk).add_(part[1])
            run.of(dv).add_(part[2])
            del part  # free it before the next part is made
