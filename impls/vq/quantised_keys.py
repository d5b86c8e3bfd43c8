"""Base class of all attentions over quantised keys: normalisation, the codebook, and the choice of codes.

B batch, H heads of q, K heads of k and v, N tokens, D query/key width, S codes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Attention, Problem

from . import reference
from .codebook import Codebook, rows_of
from .eager.rms import rms_norm
from .eager.straight_through import straight_through
from .options import Quantisation

COMMITMENT = 1e-4
"""Weight of the commitment loss beside the loss of the task."""


class QuantisedKeys(Attention):
    """Attention with normalised and scaled queries and keys, where the nearest rows of a codebook replace the keys.

    Each head of k has a codebook, a buffer that is drawn like random keys; train it with `Codebook.update`, `adapt` it to keys,
    or set `codebook`.
    """

    paper = "arXiv:2309.16354"
    decodes = True

    def __init__(self, problem: Problem, quantisation: Quantisation) -> None:
        super().__init__(problem)
        self.quantisation, self.factor = quantisation, quantisation.factor(problem.D)
        self.codebook = Codebook.drawn(problem.kv_heads, quantisation.codes, problem.D, self.factor)

    def adapt(self, *inputs: Tensor) -> None:
        """Fit the codebook to the keys."""
        self.codebook.fit(self.normalised(inputs[1]))

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Choose the codes of the keys, int64 [B, K, N]: the nearest in squared distance, in float32 at least."""
        return self.assigned(self.normalised(inputs[1]))

    def penalty(self, *inputs: Tensor, choices: Tensor | None) -> Tensor:
        """Compute the commitment loss of the keys, times 1e-4, which a model adds to its loss (Lingle 2023, section 3.4)."""
        k = self.normalised(inputs[1])
        return COMMITMENT * self.codebook.commit_loss(k, self.assigned(k) if choices is None else choices)

    def learn(self, *inputs: Tensor, choices: Tensor | None) -> None:
        """Move the codebook towards the keys, once in each training step."""
        k = self.normalised(inputs[1])
        self.codebook.update(k, self.assigned(k) if choices is None else choices)

    def normalised(self, x: Tensor) -> Tensor:
        """Normalise q or k for the scores: divide by its root mean square if asked, and multiply by tau^-½."""
        return rms_norm(x, self.factor) if self.quantisation.normalise else x * self.factor

    @torch.no_grad()
    def assigned(self, k: Tensor) -> Tensor:
        """Choose the codes of normalised keys, [B, K, N, D] -> int64 [B, K, N]."""
        return self.codebook.assign(k)

    def looked_up(self, codes: Tensor, codebook: Tensor) -> Tensor:
        """Look up the rows of codes: int64 [B, K, N] and [K, S, D] -> [B, K, N, D]."""
        return rows_of(codebook, codes)

    def coded(self, k: Tensor, choices: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return k̂ [B, K, N, D], with the codes' value and k's gradient; z [B, K, N]; the codebook [K, S, D] in k's dtype."""
        k = self.normalised(k)
        codes = self.assigned(k) if choices is None else choices
        codebook = self.codebook.vectors.to(k.dtype)
        return straight_through(k, self.looked_up(codes, codebook)), codes, codebook

    def exact(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Softmax over the keys as they are, normalised and scaled alike."""
        q, k = self.normalised(q), self.normalised(k)
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.problem.causal, scale=1.0, enable_gqa=True)

    def head_as_defined(self, head: int, q: Tensor, k: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Compute q and k̂ of one head as `as_defined` does: [N, D] twice and codes int64 [N]."""
        normalise, own = self.quantisation.normalise, head * self.problem.kv_heads // self.problem.H
        q, k = (reference.normalised(x, self.factor, normalise=normalise) for x in (q, k))
        return q, self.codebook.vectors[own].to(k.dtype).detach()[codes] + (k - k.detach())

    def as_defined(self, q: Tensor, k: Tensor, choices: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute q and k̂ as the paper writes them, for references."""
        normalise = self.quantisation.normalise
        q, k_normalised = (reference.normalised(x, self.factor, normalise=normalise) for x in (q, k))
        codes = self.choose(q, k) if choices is None else choices
        return q, reference.quantised(k_normalised, self.codebook.vectors.to(k.dtype), codes)
