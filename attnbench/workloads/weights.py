"""Attention weights: what each query gives to each key, read off a method's own definition by one-hot values.

B batch, H heads, K heads of k and v, N tokens. Every attention that is linear in v has weights; nothing here knows more of it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, Problem
from attnbench.schema.noun import Scalar


def weights(method: Attention, inputs: tuple[Tensor, ...], choices: Tensor | None = None) -> Tensor:
    """Of the method, by its reference: [B, H, N, N], queries by keys; without `choices` it makes its own.

    Raises what the reference raises, also where that takes values of the problem's width only.
    """
    choices = method.choose(*inputs) if choices is None else choices
    return _of_one_hot_values(method.reference, inputs, {} if choices is None else {"choices": choices})


def executed_weights(method: Attention, inputs: tuple[Tensor, ...], choices: Tensor | None) -> Tensor:
    """Of the method as it runs, by its forward on as many values at a time as the problem has: [B, H, N, N].

    What the definition holds N x N of may be little work for the method itself.
    """
    N, M, keywords = inputs[2].shape[2], method.problem.M, {} if choices is None else {"choices": choices}
    columns = [_of_one_hot_values(method, inputs, keywords, first, M) for first in range(0, N, M)]
    return torch.cat(columns, dim=-1)[..., :N]


def exact_weights(method: Attention, inputs: tuple[Tensor, ...]) -> Tensor:
    """Of what the method approximates: [B, H, N, N]."""
    return _of_one_hot_values(method.exact, inputs, {})


def draw_weights(name: str, problem: Problem, params: dict[str, Scalar], seed: int) -> Tensor:
    """Of a method by name, on inputs drawn as for a measurement: [B, H, N, N]. Raises what registry and method raise."""
    # seeded apart, as in a measurement: a method's own draws do not move its inputs
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
    """Weights of the keys from `first` on, `width` of them (beyond the last they are 0), or of all: [B, H, N, width]."""
    v_BKNM, N = inputs[2], inputs[2].shape[2]
    one_hot = torch.zeros(N, N if width is None else width, dtype=v_BKNM.dtype, device=v_BKNM.device)
    one_hot[first:].fill_diagonal_(1)
    return function(*inputs[:2], one_hot.expand(*v_BKNM.shape[:2], -1, -1).contiguous(), *inputs[3:], **keywords)
