"""The discretised mixture of logistics: the distribution of the next pixel, in one channel.

Salimans et al. 2017 (PixelCNN++, arXiv:1701.05517), section 2.1. L levels lie evenly in [-1, 1], each the middle of a bin; the
outermost bins reach to infinity. The parameters [..., 3 K] of K logistics are K logits, K means and K logarithms of scales.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

_LOG_SCALES = (-7.0, 7.0)
"""Scales are no narrower than in their code, a tenth of one of 256 bins, and no wider than a thousand times all bins."""
_EDGE = 1e-5
"""The least distance of uniform random numbers from 0 and 1, as in their code."""


def log_prob(parameters: Tensor, values: Tensor, levels: int) -> Tensor:
    """Return log p of each value, in nats: [..., 3 K] and int64 [...] -> [...]. The probabilities of all levels add up to 1."""
    logits, means, log_scales = split(parameters)
    x, half_bin = (2 * values.double() / (levels - 1) - 1).to(means.dtype).unsqueeze(-1), 1 / (levels - 1)
    inverse = torch.exp(-log_scales)
    above, below = (x - means + half_bin) * inverse, (x - means - half_bin) * inverse
    # log(σ(a) - σ(b)) = log σ(a) + log σ(-b) + log(1 - exp(b - a)), which loses nothing in either tail
    width = torch.log(-torch.expm1(-2 * half_bin * inverse))
    lowest, highest = (values == 0).unsqueeze(-1), (values == levels - 1).unsqueeze(-1)
    left, right = F.logsigmoid(above), F.logsigmoid(-below)
    inner = left.masked_fill(highest, 0) + right.masked_fill(lowest, 0) + width.masked_fill(lowest | highest, 0)
    return torch.logsumexp(F.log_softmax(logits, dim=-1) + inner, dim=-1)


def log_probs(parameters: Tensor, levels: int) -> Tensor:
    """Return log p of all levels: [..., 3 K] -> [..., L]."""
    values = torch.arange(levels, device=parameters.device).expand(*parameters.shape[:-1], levels)
    return log_prob(parameters.unsqueeze(-2), values, levels)


def sample(parameters: Tensor, levels: int, generator: torch.Generator | None = None) -> Tensor:
    """Draw a component by its weight, a number from it, and take its bin: [n, 3 K] -> int64 [n]."""
    logits, means, log_scales = split(parameters)
    chosen = torch.multinomial(logits.softmax(-1), 1, generator=generator)
    mean, log_scale = (each.gather(-1, chosen).squeeze(-1) for each in (means, log_scales))
    u = torch.rand(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype).clamp_(_EDGE, 1 - _EDGE)
    x = mean + log_scale.exp() * torch.logit(u)
    return ((x.clamp(-1, 1) + 1) / 2 * (levels - 1)).round().long()


def split(parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits, means and log-scales, [..., K] each, in float32 at least."""
    wide = parameters.to(torch.promote_types(parameters.dtype, torch.float32))
    logits, means, log_scales = wide.chunk(3, dim=-1)
    return logits, means, log_scales.clamp(*_LOG_SCALES)
