"""TTT-Linear: the state is a linear model, trained on each token by a step of gradient descent.

B, b batch, H heads, K heads of k and v, R = H / K, N, n tokens, D width of queries, keys and values; X rows (batch and heads of
k and v folded), S mini-batches of L tokens.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbench.api import Attention, Cost, Problem, Projection, Scalar, State, Workload, io_bytes, nominal_flops

from ...partial.heads import of_each_head
from ...partial.on_paper import on_paper
from ...recurrence.heads import lower_, of_one_token, one_token_of
from ...recurrence.products import add_product
from ...recurrence.walk import Inputs, attend, attend_and_keep

EPS = 1e-6
"""What the layer norm adds to a variance."""


@dataclass(frozen=True)
class Trained:
    """The model at the start of the mini-batch, and after the last token: weights above a bias, [b, K, D + 1, D]."""

    start: Tensor
    now: Tensor
    count: int
    """The tokens of the mini-batch so far."""


class TttLinear(Attention):
    """o_t = f(q_t; W_t) with f(x; W) = x + LN(x W), where W_t is W trained on ½ |f(k_s; W) - v_s|² of all tokens s ≤ t.

    Sun et al. 2024, *Learning to (Learn at Test Time)*, sections 2.1 to 2.7, in O(N (L + D) D): W_t = W' - Σ η_s ∇ℓ_s(W') over
    the tokens of t's mini-batch so far, W' being W after the mini-batch before, and no later token is seen. Inputs are q, k, v
    and the rates η [B, K, N] > 0; W has a bias, and begins, as the norm's weight and bias do, at values that are learned. A
    head of k and v trains one model, of norm and all, which each head of q that it serves asks. Raises ValueError where
    mini_batch < 1.
    """

    paper = "arXiv:2407.04620"
    decodes = True
    packs = True
    causal_only = True
    because = "its model is trained from token to token"
    one_width = True
    weighs = False

    def __init__(self, problem: Problem, mini_batch: int = 16) -> None:
        super().__init__(problem)
        if isinstance(mini_batch, bool) or not isinstance(mini_batch, int) or mini_batch < 1:
            raise ValueError(f"mini_batch={mini_batch!r}: it counts tokens and must be a whole number, 1 or more")
        self.mini_batch = mini_batch
        heads, D, dtype = problem.kv_heads, problem.D, getattr(torch, problem.dtype)
        begin = torch.cat((0.02 * torch.randn(heads, D, D), torch.zeros(heads, 1, D)), 1)
        self.begin = nn.Parameter(begin.to(dtype))
        self.norm = nn.Parameter(torch.stack((torch.ones(heads, D), torch.zeros(heads, D))).to(dtype))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count products with the model and within mini-batches. Raises TypeError or ValueError on bad parameters."""
        p, L = problem, on_paper(cls, problem, params).mini_batch
        tokens, trains = 1 if workload is Workload.DECODE else p.N, workload is Workload.FORWARD_BACKWARD
        # of each token: k W, q W, and what it adds to W
        model, tail = tokens * 2.0 * (2 * p.kv_heads + p.H) * (p.D + 1) * p.D, p.N % L
        pairs = p.H * ((p.N - tail) * L + tail * tail) * 2.0 * (2 * p.D + 1)
        executed = model if workload.decodes else (model + pairs) * (4 if trains else 1)
        heads = p.B * p.kv_heads
        rates, size = heads * tokens * (3.0 if trains else 1.0), heads * (p.D + 1) * p.D * max(4, p.dtype.bytes)
        moved = io_bytes(p, workload) + rates * p.dtype.bytes + (3.0 * tokens * size if workload.decodes else 0)
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=p.B * model * (3 if trains else 1),
            executed_flops=p.B * executed,
            traffic_bytes=moved,
        )

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and the number from which the rate is made."""
        return *super().projections(problem), Projection("rate", problem.kv_heads, 1)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return q, k, v, and η = σ(x) / D, as the authors' code has it."""
        q, k, v, x = super().admit(problem, *raw)
        return q, k, v, x.sigmoid().squeeze(-1) / problem.D

    def forward(self, q: Tensor, k: Tensor, v: Tensor, rates: Tensor) -> Tensor:  # type: ignore[override]
        """Attend: [B, H, N, D], [B, K, N, D] twice, [B, K, N] -> [B, H, N, D], any N, differentiable once."""
        return attend(_trained, self._inputs(q, k, v, rates), self.mini_batch, self._size)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, rates: Tensor) -> Tensor:  # type: ignore[override]
        """Train one copy of the model for each token, by autograd of the loss itself."""
        group = q.shape[1] // k.shape[1]
        k, v, rates = of_each_head(q, k, v, rates)
        with torch.enable_grad():
            norm = self.norm.repeat_interleave(group, 1)
            model, outputs = self.begin.repeat_interleave(group, 0).expand(len(q), -1, -1, -1), []
            for some in zip(*(x.split(self.mini_batch, 2) for x in (q, k, v, rates)), strict=True):
                q_, k_, v_, rates_ = some
                copies = (model.unsqueeze(2) + torch.zeros_like(k_[..., :1, None])).requires_grad_()
                loss = (_answer(k_, copies, norm) - v_).square().sum() / 2
                (slopes,) = torch.autograd.grad(loss, copies, create_graph=True)
                after = model.unsqueeze(2) - (rates_[..., None, None] * slopes).cumsum(2)
                outputs.append(_answer(q_, after, norm))
                model = after[:, :, -1]
            o = torch.cat(outputs, 2)
        return o if torch.is_grad_enabled() else o.detach()

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, rates: Tensor) -> Tensor:  # type: ignore[override]
        """Train the model of one head mini-batch by mini-batch, and ask it for the tokens `at`."""
        found: dict[int, Tensor] = {}
        with torch.enable_grad():
            state = head * self.problem.kv_heads // self.problem.H
            model = self.begin[state]
            norm = partial(_normed, scale=self.norm[0, state], shift=self.norm[1, state])
            for first in range(0, int(at.max()) + 1, self.mini_batch):
                q_, k_, v_, rates_ = (x[first : first + self.mini_batch] for x in (q, k, v, rates))
                z = (_with_one(k_) @ model).requires_grad_()
                (slopes,) = torch.autograd.grad((k_ + norm(z) - v_).square().sum() / 2, z, create_graph=True)
                given = rates_.unsqueeze(-1) * _with_one(k_)
                for i in range(len(q_)):
                    if first + i in at:
                        after = model - given[: i + 1].mT @ slopes[: i + 1]
                        found[first + i] = q_[i] + norm(_with_one(q_[i : i + 1]) @ after)[0]
                model = model - given.mT @ slopes
            o = torch.stack([found[i] for i in at.tolist()])
        return o if torch.is_grad_enabled() else o.detach()

    def exact(self, q: Tensor, k: Tensor, v: Tensor, rates: Tensor) -> Tensor:  # type: ignore[override]  # noqa: ARG002
        """Softmax attention over all keys; this is not meant to approximate it."""
        return super().exact(q, k, v)

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, rates: Tensor, *, capacity: int) -> tuple[Tensor, State]:  # type: ignore[override]  # noqa: ARG002
        """Attend to whole mini-batches of the prompt at once, and to the tokens that remain one by one."""
        whole = q.shape[2] - q.shape[2] % self.mini_batch
        first = (x[:, :, :whole] for x in (q, k, v, rates))
        o, learned = attend_and_keep(_trained, self._inputs(*first), self.mini_batch, self._size)
        start = learned + self.begin.detach()
        state, outputs = Trained(start, start.clone(), 0), [o]
        for t in range(whole, q.shape[2]):
            o, state = self.step(*(x[:, :, t : t + 1] for x in (q, k, v, rates)), state=state)
            outputs.append(o)
        return torch.cat(outputs, 2), state

    def step(self, q: Tensor, k: Tensor, v: Tensor, rates: Tensor, *, state: State) -> tuple[Tensor, State]:  # type: ignore[override]
        """Train the model on one token in place, and ask it."""
        with torch.no_grad():
            scale, shift = self.norm.to(state.now.dtype).unsqueeze(-2)
            dtype, (q, k, v, rates) = q.dtype, (x.to(state.now.dtype) for x in (q, k, v, rates))
            given, asking = _with_one(k), of_one_token(q, k.shape[1])
            slope = _slope(given @ state.start, (k + shift - v) * scale, scale.square())
            state.now.sub_((given * rates.unsqueeze(-1)).mT @ slope)
            o = asking + _normed(_with_one(asking) @ state.now, scale, shift)
            if state.count + 1 == self.mini_batch:
                state.start.copy_(state.now)
            return one_token_of(o.to(dtype), q.shape[1]), replace(state, count=(state.count + 1) % self.mini_batch)

    @property
    def _size(self) -> tuple[int, int]:
        return self.problem.D + 1, self.problem.D

    def _inputs(self, q: Tensor, k: Tensor, v: Tensor, rates: Tensor) -> Inputs:
        """Return what the walk takes: of the tokens, and of the parameters of a head, the same for all tokens."""
        of_heads = (x.flatten(1).expand(len(q), -1, -1).unsqueeze(2) for x in (self.begin, *self.norm))
        return q, k, v, rates.unsqueeze(-1), *of_heads


def _answer(x: Tensor, model: Tensor, norm: Tensor) -> Tensor:
    """Compute f: x [B, H, n, D] by a model for each of them, [B, H, n, D + 1, D], and the norm of each head [2, H, D]."""
    scale, shift = norm.unsqueeze(-2)
    return x + _normed((_with_one(x).unsqueeze(-2) @ model).squeeze(-2), scale, shift)


def _trained(inputs: Inputs, learned: Tensor) -> tuple[Tensor, Tensor]:
    """Train through some mini-batches: q [S, X, R L, D], k, v [S, X, L, D], rates [S, X, L, 1], the first models, their norms.

    `learned` [X, D + 1, D] is what has been added to the first model so far. The model that a token is asked by differs from
    that at the start of its mini-batch by products of tokens: q W_t = q W' - Σ_{s≤t} η_s (q·k_s + 1) dℓ_s/dz_s (section 2.5,
    the dual form).
    """
    q, k, v, rates, begin, scale, shift = (x.contiguous() for x in inputs)
    asked, given = _with_one(q), _with_one(k)
    taken_off = lower_(asked @ given.mT) * -rates.mT
    at_zero, strength = torch.addcmul(shift * scale, k - v, scale), scale.squeeze(0).square()
    model, answers, slopes = learned + begin.view(learned.shape), [], []
    # what each mini-batch waits for is the one before: as few and small products as can be
    for asks, gives, error, trains in zip(asked, given, at_zero, (given * rates).mT, strict=True):
        slopes.append(_slope(torch.bmm(gives, model), error, strength))
        answers.append(torch.bmm(asks, model))
        model = torch.baddbmm(model, trains, slopes[-1], alpha=-1)
    z = add_product(torch.stack(answers), taken_off, torch.stack(slopes))
    return q + _normed(z, scale, shift), model - begin.view(learned.shape)


def _slope(z: Tensor, at_zero: Tensor, strength: Tensor) -> Tensor:
    """Compute dℓ/dz of ℓ = ½ |f - v|², [..., L, D], where dℓ/dnorm(z) = `at_zero` + `strength` norm(z)."""
    normal, mean, spread = torch.native_layer_norm(z, z.shape[-1:], None, None, EPS)
    error = torch.addcmul(at_zero, strength, normal)
    slope: Tensor = torch.ops.aten.native_layer_norm_backward(
        error, z, z.shape[-1:], mean, spread, None, None, (True, False, False)
    )[0]
    return slope


def _normed(z: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return F.layer_norm(z, z.shape[-1:], eps=EPS) * scale + shift


def _with_one(x: Tensor) -> Tensor:
    """Append a 1 to each row, which meets the bias."""
    return F.pad(x, (0, 1), value=1.0)
