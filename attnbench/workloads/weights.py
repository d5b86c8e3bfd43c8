"""Attention weights: the weight of each key for each query, found by calling a method with one-hot values.

B batch, H heads, K heads of k and v, N tokens. This works for every attention that `weighs`.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, Problem
from attnbench.schema.noun import Scalar
from attnbench.workloads.setting import keywords_of


def weights(method: Attention, inputs: tuple[Tensor, ...], choices: Tensor | None = None) -> Tensor:
    """Return the weights by the method's reference, [B, H, N, N], queries by keys; without `choices` it makes its own.

    Raises what the reference raises, also where it takes only values of the problem's width.
    """
    choices = method.choose(*inputs) if choices is None else choices
    return _of_one_hot_values(method.reference, inputs, keywords_of(choices))


def executed_weights(method: Attention, inputs: tuple[Tensor, ...], choices: Tensor | None) -> Tensor:
    """Return the weights by the method's forward, [B, H, N, N], called on as many values at a time as the problem has."""
    N, M, keywords = inputs[2].shape[2], method.problem.M, keywords_of(choices)
    columns = [_of_one_hot_values(method, inputs, keywords, first, M) for first in range(0, N, M)]
    return torch.cat(columns, dim=-1)[..., :N]


def exact_weights(method: Attention, inputs: tuple[Tensor, ...]) -> Tensor:
    """Return the weights of the attention that the method approximates, [B, H, N, N]."""
    return _of_one_hot_values(method.exact, inputs, {})


def draw_weights(name: "str | type[Attention]", problem: Problem, params: dict[str, Scalar], seed: int) -> Tensor:
    """Return the weights of a method, by its name or its class, [B, H, N, N], on inputs drawn as for a measurement.

    Raises what registry and method raise.
    """
    # another seed than that of the inputs, as in a measurement
    torch.manual_seed(seed + 1)
    method = registry.build(name, problem, **params)
    with torch.no_grad():
        return weights(method, type(method).inputs(problem, torch.Generator().manual_seed(seed)))


def _of_one_hot_values(
    function: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    keywords: dict[str, Any],
    first: int = 0,
    width: int | None = None,
) -> Tensor:
    """Return the weights of `width` keys from `first` on (0 beyond the last), or of all: [B, H, N, width]."""
    v_BKNM, N = inputs[2], inputs[2].shape[2]
    one_hot = torch.zeros(N, N if width is None else width, dtype=v_BKNM.dtype, device=v_BKNM.device)
    one_hot[first:].fill_diagonal_(1)
    return function(*inputs[:2], one_hot.expand(*v_BKNM.shape[:2], -1, -1).contiguous(), *inputs[3:], **keywords)
