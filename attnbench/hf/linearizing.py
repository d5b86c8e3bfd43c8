"""Linearising: a model learns to say with another attention what it said with its own.

Zhang et al. 2024 (LoLCATs, arXiv:2410.10254): first each swapped layer is trained to give the output of the layer that it
replaces, on that layer's own inputs; then low-rank updates of all linear maps are trained on the text itself (LoRA: Hu et al.
2021, arXiv:2106.09685). There the feature maps alone are matched; here all of a swapped layer, for most methods learn none.
B sequences, N tokens.
"""

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from attnbench.api import Scalar
from attnbench.hf.refusals import CannotError
from attnbench.hf.swapping import attentions, swap, swapped_in
from attnbench.hf.text import drawn
from attnbench.registry import MissingPackageError
from attnbench.training.block import evaluating


@dataclass(frozen=True)
class Budget:
    """The most that linearising may cost; to be fixed before methods are compared by what came of it."""

    N: int = 256
    """Tokens of a sequence."""
    B: int = 8
    match_updates: int = 300
    match_rate: float = 1e-3
    tune_updates: int = 300
    tune_rate: float = 3e-4
    rank: int = 8
    """Of the low-rank updates."""
    seed: int = 0
    """Of the sequences that are drawn from the text, and of what is drawn anew."""


def linearize(
    model: PreTrainedModel,
    method: str,
    tokens: Tensor,
    layers: Sequence[int] | None = None,
    *,
    budget: Budget | None = None,
    **options: Scalar,
) -> PreTrainedModel:
    """Swap a method into layers of a model, in place, and train it on a text; return the model, in evaluation mode.

    `tokens` is the text, int64 [T] with T > N; `options` are those of `swap`. Raises MissingPackageError without peft,
    CannotError where the text is too short, and what `swap` raises.
    """
    if find_spec("peft") is None:
        # not after all that comes before it
        raise MissingPackageError("attnbench.hf.linearize needs peft: pip install 'attnbench[hf]'")
    budget = budget or Budget()
    text = drawn(tokens, budget.N, budget.B, budget.seed)
    own = copy.deepcopy(model).eval().requires_grad_(requires_grad=False)
    torch.manual_seed(budget.seed)
    swapping: dict[str, Any] = dict(options)
    swap(model, method, layers, **swapping)
    match(model, own, text, budget)
    return tune(model, text, budget)


def match(model: PreTrainedModel, own: PreTrainedModel, text: Iterator[Tensor], budget: Budget) -> None:
    """Train each swapped layer to give the output that the same layer of the model's own gives, on that layer's inputs."""
    theirs = dict(attentions(own))
    ours = {layer: module for layer, module in attentions(model) if swapped_in(module)}
    calls: dict[int, tuple[tuple[Any, ...], dict[str, Any], Tensor]] = {}

    def listen(layer: int, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401
        calls[layer] = args, kwargs, output[0]

    hooks = [theirs[layer].register_forward_hook(partial(listen, layer), with_kwargs=True) for layer in ours]
    optimiser = torch.optim.AdamW([x for module in ours.values() for x in module.parameters()], budget.match_rate)
    model.train()
    for tokens in islice(text, budget.match_updates):
        with torch.no_grad():
            own(tokens.to(own.device), use_cache=False)
        for layer, module in ours.items():
            args, kwargs, wanted = calls[layer]
            made = module(*args, **kwargs)[0]
            # relative to the size of the output, so that no layer outweighs the others
            loss = (made - wanted).square().mean() / wanted.square().mean()
            loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        for module in ours.values():
            module.swapped.learn()
    for hook in hooks:
        hook.remove()


def tune(model: PreTrainedModel, text: Iterator[Tensor], budget: Budget) -> PreTrainedModel:
    """Train low-rank updates of all linear maps, and all that is new, on the text itself; return the model with them merged."""
    from peft import LoraConfig, get_peft_model

    inside = r".*\.swapped\..*"
    config = LoraConfig(
        r=budget.rank, lora_alpha=2 * budget.rank, target_modules="all-linear", exclude_modules=inside, task_type="CAUSAL_LM"
    )
    with warnings.catch_warnings():
        # peft asks for it by the name that transformers has given up
        warnings.filterwarnings("ignore", ".is_gradient_checkpointing. is deprecated", FutureWarning)
        tuned = get_peft_model(model, config)
    for name, parameter in tuned.named_parameters():
        if ".swapped." in name:
            parameter.requires_grad_()
    train_on_text(tuned, text, budget.tune_updates, budget.tune_rate)
    merged: PreTrainedModel = tuned.merge_and_unload()
    return merged.eval().requires_grad_()


def train_on_text(model: PreTrainedModel, text: Iterator[Tensor], updates: int, rate: float) -> None:
    """Train all of a model that takes gradients on so many batches of a text, by AdamW."""
    optimiser = torch.optim.AdamW([x for x in model.parameters() if x.requires_grad], rate)
    model.train()
    for batch in islice(text, updates):
        tokens = batch.to(model.device)
        next_token_loss(model, tokens).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        for _, module in attentions(model):
            if swapped := swapped_in(module):
                swapped.learn()


@torch.no_grad()
def perplexity(model: PreTrainedModel, tokens: Tensor, N: int, B: int = 8) -> float:
    """Return exp of the mean loss over the next tokens of a text, int64 [T], cut into sequences of N; the rest is left out.

    Raises CannotError where T < N or there is no next token, N < 2.
    """
    if N < 2:
        raise CannotError(f"N={N}: a sequence has no next token; it must be 2 or more")
    if len(tokens) < N:
        raise CannotError(f"the text has {len(tokens):,} tokens; N={N:,} needs as many")
    sequences, total = tokens[: len(tokens) // N * N].view(-1, N), 0.0
    with evaluating(model):
        for batch in sequences.split(B):
            total += float(next_token_loss(model, batch.to(model.device))) * len(batch)
    return math.exp(total / len(sequences))


def next_token_loss(model: PreTrainedModel, tokens: Tensor) -> Tensor:
    """Return the mean loss over the next tokens of sequences, int64 [B, N].

    The loss that a model gives itself is of the same token in BART and its kin, and of experts' routers too in others.
    """
    logits = model(tokens, use_cache=False).logits[:, :-1]
    return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
