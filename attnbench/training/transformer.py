"""A small, plain Transformer around one attention method: pre-norm, learnt positions.

B sequences, N tokens, n of them, W = H D the model's width, C channels of a frame.
"""

import math
import zlib
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnbench.schema.cell import Cell
from attnbench.schema.problem import DType
from attnbench.schema.training import Training
from attnbench.training.block import Block, attention_of
from attnbench.training.tasks import Alphabet

_STD = 0.02


class Transformer(nn.Module):
    """Takes token numbers or frames, and gives at each position what the model says there.

    In half precision, weights are float32 and products are made by autocast; the attention and its own parameters are in the
    dtype of the cell. Raises ValueError where the cell has no training, and what the method raises.
    """

    def __init__(self, cell: Cell, alphabet: Alphabet, seed: int) -> None:
        super().__init__()
        self.cell, self.alphabet, self.plan = cell, alphabet, plan_of(cell)
        p, plan = cell.problem, self.plan
        width = p.H * p.D
        C = alphabet.channels
        self.embedding = nn.Embedding(alphabet.vocabulary, width) if C is None else nn.Linear(C, width)
        self.positions = nn.Parameter(torch.empty(p.N, width))
        attentions = (attention_of(cell, layer, plan.layers) for layer in range(plan.layers))
        self.blocks = nn.ModuleList(Block(attention, plan.feedforward) for attention in attentions)
        # a weight for each token is said at a position, or three numbers for each logistic
        outputs = alphabet.vocabulary if alphabet.levels is None else 3 * plan.mixtures
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)
        initialise(self, seed, plan.layers)
        if C is not None:
            # with random positions it takes a model long to find which frames are near each other
            self.positions.data = _STD * sinusoids(p.N, width)
        self.to(cell.device)
        if p.dtype is DType.FLOAT64:
            self.double()

    @property
    def layers(self) -> list[Block]:
        """The layers, from the first to the last."""
        return cast("list[Block]", list(self.blocks))

    @property
    def size(self) -> int:
        """The count of numbers that are learnt."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    @property
    def precision(self) -> torch.autocast:
        """The autocast under which the model runs."""
        dtype = self.cell.problem.dtype
        half = dtype.bytes == 2
        return torch.autocast(self.cell.device_kind, getattr(torch, dtype) if half else torch.bfloat16, enabled=half)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is said, int64 [B, N] or frames [B, N, C] -> [B, N, outputs], and what attentions add to the loss."""
        with self.precision:
            x = self.embed(tokens)
            penalty = x.new_zeros((), dtype=torch.float32)
            for block in self.layers:
                if self.plan.recompute and self.training and torch.is_grad_enabled():
                    # the layer runs again in the backward, with the same random numbers
                    x, more = checkpoint(block, x, use_reentrant=False)
                else:
                    x, more = block(x)
                penalty = penalty + more
            return self.say(x), penalty

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Embed tokens or frames at the positions from `first` on: int64 [B, n] or float [B, n, C] -> [B, n, W]."""
        if self.alphabet.channels is not None:
            # a frame is as long as the one-hot vector of a token: a longer one would drown its position
            tokens = tokens.to(self.positions.dtype) / math.sqrt(self.alphabet.channels)
        embedded: Tensor = self.embedding(tokens)
        return embedded + self.positions[first : first + tokens.shape[1]]

    def say(self, x: Tensor) -> Tensor:
        """Return what is said after the last layer: [B, n, W] -> [B, n, outputs]."""
        said: Tensor = self.head(self.norm(x))
        return said

    def learn(self) -> None:
        """Update what no gradient reaches, after a backward."""
        for block in self.layers:
            block.learn()


@torch.no_grad()
def initialise(model: nn.Module, seed: int, layers: int) -> None:
    """Draw the weights as GPT-2 does: matrices and embeddings from N(0, 0.02²), biases 0, gains 1.

    Matrices that write into the residual sum are smaller by √(2 layers): Radford et al. 2019, section 2.3, and their code. Each
    is drawn by the seed and its own name, so that models around different attentions have equal weights wherever they have the
    same. An attention's own parameters stay as the attention drew them.
    """
    for name, parameter in model.named_parameters():
        if ".attention." in name:
            continue
        if parameter.dim() > 1:
            std = _STD / math.sqrt(2 * layers) if name.endswith(("out.weight", "down.weight")) else _STD
            source = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
            parameter.copy_(torch.randn(parameter.shape, generator=source) * std)
        elif name.endswith(".bias"):
            parameter.zero_()


def sinusoids(N: int, width: int) -> Tensor:
    """Return positions of which near ones are alike, [N, W]: Vaswani et al. 2017, section 3.5."""
    angle = torch.arange(N)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)[:, :width]


def plan_of(cell: Cell) -> Training:
    """Return the model and what it learns. Raises ValueError where the cell states none."""
    if cell.training is None:
        raise ValueError(f"workload {cell.workload} needs a model, and the cell states none: training is missing")
    return cell.training
