"""One update of a model's weights (the loss, the optimiser and its step), and judging by sequences that it never trains on.

B sequences, N tokens.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.training import ctc, logistics
from attnbench.training.block import evaluating
from attnbench.training.tasks import Alphabet, Batch
from attnbench.training.transformer import Transformer

_NOT_JUDGED = -100
_JUDGING_SEED = 0


def nats(said: Tensor, batch: Batch, alphabet: Alphabet) -> Tensor:
    """Return -log p of the targets, 0 where they are not judged: [B, N, outputs] -> [B, N], in float32 at least.

    Of speech it is that of each utterance, [B], for no symbol of it has a position of its own.
    """
    if alphabet.channels is not None:
        return ctc.nats(said, batch)
    if alphabet.levels is not None:
        # a target that is not judged may be no pixel at all
        values = batch.targets.masked_fill(~batch.judged, 0)
        return -logistics.log_prob(said, values, alphabet.levels).masked_fill(~batch.judged, 0)
    wide = said.to(torch.promote_types(said.dtype, torch.float32))
    targets = batch.targets.masked_fill(~batch.judged, _NOT_JUDGED)
    each = F.cross_entropy(wide.flatten(0, 1), targets.flatten(), ignore_index=_NOT_JUDGED, reduction="none")
    return each.view_as(targets)


def loss_of(said: Tensor, batch: Batch, alphabet: Alphabet) -> Tensor:
    """Return the mean nats of a judged token: [B, N, outputs] -> a number."""
    return nats(said, batch, alphabet).sum() / batch.judged.sum()


def right(said: Tensor, batch: Batch) -> Tensor:
    """Count the judged tokens that the likeliest one hits: a number, int64."""
    return ((said.argmax(-1) == batch.targets) & batch.judged).sum()


def optimiser_of(model: Transformer) -> torch.optim.RAdam:
    """Return RAdam (Liu et al. 2020) over all weights, without decay."""
    return torch.optim.RAdam(model.parameters(), lr=model.plan.rate)


def losses_of(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the mean nats of a judged token, and what attentions add to it: two numbers, under autograd."""
    said, penalty = model(batch.tokens)
    return loss_of(said, batch, model.alphabet), penalty


def take(model: Transformer, optimiser: torch.optim.Optimizer, batch: Batch) -> Tensor:
    """Make one update, leave no gradients, and return the loss before the step, without what attentions add."""
    loss, penalty = losses_of(model, batch)
    torch.autograd.backward(loss + penalty)
    optimiser.step()
    optimiser.zero_grad()
    model.learn()
    return loss.detach()


@torch.no_grad()
def judge(model: Transformer, held_out: Batch) -> tuple[float, float]:
    """Return the mean nats of a judged token, and the share that the likeliest one hits (NaN where tokens are pixels).

    Of speech it is the rate of errors: the edits between what is written down and what was said, over the symbols that were
    said. Every call uses the same random numbers, and leaves those of the training as they are.
    """
    alphabet = model.alphabet
    count = right if alphabet.channels is None else ctc.errors
    loss, counted, judged = 0.0, 0, 0
    devices = [torch.device(model.cell.device)] if model.cell.device_kind == "cuda" else []
    rows, B = len(held_out.tokens), model.cell.problem.B
    with torch.random.fork_rng(devices), evaluating(model):
        torch.manual_seed(_JUDGING_SEED)
        for first in range(0, rows, B):
            # the method takes B sequences: the last batch is filled with the first rows, which are not judged again
            numbers = torch.arange(first, first + B, device=held_out.tokens.device)
            chosen, is_new = numbers % rows, (numbers < rows).unsqueeze(1)
            batch = Batch(held_out.tokens[chosen], held_out.targets[chosen], held_out.judged[chosen] & is_new)
            said, _ = model(batch.tokens)
            loss += float(nats(said, batch, alphabet).sum(dtype=torch.float64))
            counted += int(count(said, batch)) if alphabet.levels is None else 0
            judged += int(batch.judged.sum())
    return loss / judged, counted / judged if alphabet.levels is None else math.nan
