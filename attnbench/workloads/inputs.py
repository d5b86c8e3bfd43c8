"""Drawing the inputs of a method: raw tensors of the kind that a cell states, admitted by the method.

Beside normal ones there are queries and keys that are not independent, for methods that choose among keys. These are contiguous
[B, H, N, D] or [B, K, N, D]; each number of a key has variance 1 except in `pairs`.
B batch, H heads, K heads of keys, N tokens, D width.
"""

import math

import torch
from torch import Tensor

from attnbench.api import Attention, Layout, Problem, draw, laid_out
from attnbench.schema.cell import Cell, Inputs
from attnbench.workloads.recording import Recording

CENTRES = 16
SPREAD = 0.5
"""The standard deviation around a centre; centres are scaled such that the sum has variance 1."""
APART = 0.25
"""The standard deviation of the noise of each token of a pair, where what the two share has variance 1."""
_LEAD = 2.0
"""The natural logarithm of the weight of the wanted key over that of all others together."""
_FIXED_SEED = 16
_SCALED = frozenset({"q", "k", "qk"})


def peaked(problem: Problem, generator: torch.Generator, among: int | None = None) -> tuple[Tensor, Tensor]:
    """Draw q_i = f k_j + x, with k and x ~ N(0, 1) and j any key, under causality an earlier one or i itself.

    Logits q·k / √D are f √D for the wanted key and have variance 1 + f² for others, whose weights therefore add up to
    N exp((1 + f²) / 2). f is such that the wanted one has e² times as much, about 88 % of all; or √D, which is the best
    where D is too small for N. Of tokens that are only a few of N, `among` is N.
    """
    p = problem
    x, k = (draw(p, heads, p.D, generator, Layout.BHND) for heads in (p.H, p.kv_heads))
    seen = torch.arange(1, p.N + 1, device=generator.device) if p.causal else torch.tensor(p.N, device=generator.device)
    # the minimum, because the product may be rounded up to the number of keys that are seen
    any_key = (_uniform(p, generator) * seen).long().minimum(seen - 1)
    wanted = any_key.unsqueeze(-1).expand(-1, -1, -1, p.D)
    factor = _smaller_root(1.0, p.D, math.log(among or p.N) + 0.5 + _LEAD)
    return x + factor * k.repeat_interleave(p.H // p.kv_heads, dim=1).gather(2, wanted), k


def pairs(problem: Problem, generator: torch.Generator) -> Tensor:
    """Draw one tensor of queries and keys: tokens in pairs that point the same way, of which each matches the other.

    Shared-QK attention divides keys by their length, and no token sees itself. Logits q·k̂ / √D are g c for the other of a
    pair, with c the cosine between them, and have variance g² / D for others: g, the length of the tokens over √D, is such that
    the other of a pair has e² times the weight of all others. Under causality the first of a pair matches none.
    """
    p, cosine = problem, 1 / (1 + APART**2)
    x = draw(p, p.H, p.D, generator, Layout.BHND)
    shared = draw(p, p.H, p.D, generator, Layout.BHND)[:, :, : (p.N + 1) // 2].repeat_interleave(2, dim=2)[:, :, : p.N]
    length = _smaller_root(cosine, p.D, math.log(p.N) + _LEAD) * math.sqrt(p.D) * math.sqrt(cosine)
    order = _uniform(p, generator).argsort(-1).unsqueeze(-1).expand_as(x)
    return torch.empty_like(x).scatter_(2, order, (shared + APART * x) * length)


def clustered(problem: Problem, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw queries and keys around 16 common centres, with standard deviation 0.5.

    The centres of a head are the same in all draws, so that what is learnt from one draw holds for the next.
    """
    p = problem
    fixed = torch.Generator().manual_seed(_FIXED_SEED)
    wide = torch.randn(p.kv_heads, CENTRES, p.D, generator=fixed, dtype=torch.float64) * math.sqrt(1 - SPREAD**2)
    centres = wide.to(generator.device, getattr(torch, p.dtype))
    return _around(centres.repeat_interleave(p.H // p.kv_heads, dim=0), p, generator), _around(centres, p, generator)


def _around(centres: Tensor, p: Problem, generator: torch.Generator) -> Tensor:
    """Draw around random centres: [heads, 16, D] -> [B, heads, N, D]."""
    heads = len(centres)
    x = draw(p, heads, p.D, generator, Layout.BHND)
    own = torch.randint(CENTRES, (p.B, heads, p.N), generator=generator, device=generator.device)
    return centres[torch.arange(heads, device=own.device).view(-1, 1), own] + SPREAD * x


def _uniform(p: Problem, generator: torch.Generator) -> Tensor:
    return torch.rand((p.B, p.H, p.N), generator=generator, device=generator.device, dtype=torch.float64)


def _smaller_root(cosine: float, D: int, lead: float) -> float:
    """Return the smaller f for which c √D f - f² / 2 = lead, or where there is none, the f for which it is largest."""
    return math.sqrt(D) * (cosine - math.sqrt(max(0.0, cosine**2 - 2 * lead / D)))


def draw_inputs(
    method: type[Attention], cell: Cell, generator: torch.Generator, skip: int = 0, tokens: range | None = None
) -> tuple[Tensor, ...]:
    """Draw the inputs of one call, or only some `tokens` of its N, on the generator's device and in the method's own layout.

    From a recording, sequences are taken in a random order that depends on the generator's seed, after the first `skip`.
    Raises RecordingError where the recording does not fit.
    """
    tokens = range(cell.problem.N) if tokens is None else tokens
    # an input is as wide as all N tokens say: of log-linear attention there is one number for each level
    p, projections = cell.reshaped(N=len(tokens)).problem, method.projections(cell.problem)
    if cell.inputs is Inputs.NORMAL and cell.scale == 1 and projections == method.projections(p):
        # the method may draw its inputs in its own way
        return method.inputs(p, generator)
    known = _known(cell, {each.name for each in projections}, generator, skip, tokens)
    # what the kind of inputs does not define, such as gates, is drawn from N(0, 1)
    raw = tuple(
        laid_out(known[each.name], method.layout)
        if each.name in known
        else draw(p, each.heads, each.width, generator, method.layout)
        for each in projections
    )
    scaled = (x * cell.scale if each.name in _SCALED else x for each, x in zip(projections, raw, strict=True))
    return method.admit(p, *scaled, **method.drawn_once(p, generator))


def _known(cell: Cell, names: set[str], generator: torch.Generator, skip: int, tokens: range) -> dict[str, Tensor]:
    """Make the tensors that a kind of inputs defines, by projection; `qk` is the keys' where the kind has none of its own."""
    if cell.inputs is Inputs.NORMAL:
        return {}
    p = cell.reshaped(N=len(tokens)).problem
    if cell.inputs is Inputs.RECORDED:
        recording = Recording.read(cell.recording)
        # by the seed alone, so that the sequences that are skipped are known
        order = torch.randperm(recording.sequences, generator=torch.Generator().manual_seed(generator.initial_seed()))
        cut = recording.cut(cell.problem, order.roll(-skip)[: p.B])
        few, dtype = slice(tokens.start, tokens.stop), getattr(torch, p.dtype)
        # copied, because a view of a few tokens would keep all
        known = {name: x[:, :, few].to(generator.device, dtype, copy=True) for name, x in cut.items()}
        return {**known, "qk": known["k"]}
    if cell.inputs is Inputs.PEAKED and "qk" in names:
        return {"qk": pairs(p, generator)}
    q, k = clustered(p, generator) if cell.inputs is Inputs.CLUSTERED else peaked(p, generator, among=cell.problem.N)
    return {"q": q, "k": k, "qk": k}
