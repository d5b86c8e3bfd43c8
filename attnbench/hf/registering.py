"""Methods of (q, k, v) as attention implementations of transformers, by the name that `register` gives them.

B rows, H heads, K heads of k and v, n queries, S keys, D query/key width, M value width.
"""

from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from attnbench import registry
from attnbench.api import Attention, Causality, Problem, Scalar
from attnbench.hf.any_length import AtAnyLength
from attnbench.hf.masks import Seen, seen
from attnbench.hf.refusals import CannotError, refuse_unknown
from attnbench.hf.rows import rows_alike
from attnbench.schema.cell import label

_TRIED = Problem(H=2, N=128, D=32)
"""What a method is built for to see what it is; models call it for their own shapes."""


def register(method: str, **params: Scalar) -> str:
    """Make a method an attention and a mask implementation of transformers; return the name for `set_attn_implementation`.

    The name is that of the method with its parameters. A model then calls it with its own q, k, v, after
    its rotary embedding, in training and in `generate` alike; its cache goes on keeping all keys and values. Raises
    CannotError where it takes other inputs than q, k and v, learns weights, or lets a query see later keys, and what the
    registry raises.
    """
    kind, called = registry.load(method), label(method, params)
    causal = kind.causality is not Causality.NONE
    problem = _TRIED.model_copy(update={"causal": causal})
    swap = f"attnbench.hf.swap(model, {method!r}) can"
    if kind.causality is Causality.VALUES_ONLY:
        raise CannotError(f"{called} lets queries see later keys in its choices, so that it cannot stand in a causal model")
    if (takes := ", ".join(each.name for each in kind.projections(problem))) != "q, k, v":
        raise CannotError(f"{called} takes {takes}, and a registered function is given q, k and v only; {swap} make the others")
    implementation = _Implementation(method, params, kind)
    if list(implementation.built(problem, torch.device("cpu")).parameters()):
        raise CannotError(f"{called} learns weights of its own, which a registered function has no place for; {swap} keep them")
    # by these words in a name transformers knows its own kernels, and its own SDPA, which not every model supports
    name = called.replace("flash", "FLASH").replace("sdpa", "SDPA").replace("/", "_").replace("|", "_")
    AttentionInterface.register(name, implementation)
    AttentionMaskInterface.register(name, seen)
    return name


class _Implementation:
    """The function that a model calls in each layer."""

    def __init__(self, method: str, params: dict[str, Scalar], kind: type[Attention]) -> None:
        self.method, self.params, self.kind = method, params, kind
        taken = {name: each.default for name, each in signature(kind).parameters.items()} | params
        # other methods with a parameter of that name may see beyond it, such as global tokens
        self.window = taken.get("window") if kind.windowed else None
        self._built: dict[tuple[object, ...], AtAnyLength] = {}

    def __call__(  # noqa: PLR0913, PLR0917 - as transformers calls it
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Seen | Tensor | None = None,
        dropout: float = 0.0,
        scaling: float | None = None,
        sliding_window: int | None = None,  # noqa: ARG002 - the mask says so too
        is_causal: bool | None = None,
        **others: Any,  # noqa: ANN401
    ) -> tuple[Tensor, None]:
        """Attend: [B, H, n, D], [B, K, S, D], [B, K, S, M] -> [B, n, H, M], and no weights. Raises CannotError."""
        refuse_unknown(self.method, dropout, others)
        causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
        sees = self._sees(attention_mask, causal)
        if not sees.causal and (getattr(module, "is_decoder", False) or getattr(module, "is_cross_attention", False)):
            raise CannotError(f"{self.method}: queries attend to keys of another sequence; every method here is of one")
        H, n, S = query.shape[1], query.shape[2], key.shape[2]
        if n != S and not sees.causal:
            raise CannotError(f"{self.method}: {n} queries attend to {S} keys of another sequence; every method here is of one")
        there = sees.dropped + S
        sees_all = sees.window is None or min(there, self.window or there) <= sees.window
        window = None if sees_all else sees.window
        if window is not None and not self.kind.windowed:
            raise CannotError(f"{self.method}: this layer sees {window} tokens only, and the method has no form with a window")
        kv_heads = key.shape[1] if self.kind.grouped else H
        dtype = str(query.dtype).removeprefix("torch.")
        problem = Problem(
            H=H, N=_TRIED.N, D=query.shape[3], M=value.shape[3], kv_heads=kv_heads, dtype=dtype, causal=sees.causal
        )
        method = self.built(problem, query.device, window)
        key, value = (shared(x, query, method.own) for x in (key, value))
        inputs = type(method.own).admit(method.own.problem, scaled(query, scaling), key, value)
        o = value.new_zeros(*query.shape[:3], value.shape[3])
        for rows in rows_alike(sees.keys, S, causal=sees.causal):
            # the queries are those of the last n keys
            first, stop = max(rows.start - (S - n), 0), rows.stop - (S - n)
            q = rows.of(inputs[0], first, stop)
            k, v = (rows.of(x, rows.start, rows.stop) for x in inputs[1:])
            if q.shape[2]:
                rows.write(_attend(method, q, k, v), o, first, stop)
        return o.transpose(1, 2).contiguous(), None

    def built(self, problem: Problem, device: torch.device, window: int | None = None) -> AtAnyLength:
        """Return the method for these heads and widths, and any batch and length; within a window, what computes that."""
        key = (problem, device, window)
        if key not in self._built:
            method, params = self.method, self.params
            if window is not None:
                method, params = self.kind.windowed, {"window": window}
            with torch.random.fork_rng(devices=[]):
                # a registered function is the same one each time, whatever was drawn before
                torch.default_generator.manual_seed(0)
                self._built[key] = AtAnyLength(method, params, problem, device)
        return self._built[key]

    def _sees(self, mask: Seen | Tensor | None, causal: bool) -> Seen:
        if isinstance(mask, Seen):
            return mask
        if mask is not None:
            shape = list(mask.shape)
            raise CannotError(f"{self.method}: a mask of one's own, {shape}, cannot be taken; give one of [rows, tokens]")
        if causal:
            raise CannotError(f"{self.method}: this model asks for no mask, so that nothing says whether it is causal")
        return Seen(causal=False, keys=None, window=None)


def scaled(q: Tensor, scaling: float | None) -> Tensor:
    """Scale queries where a model's scale is not the 1 / √D that every method here has built in."""
    usual = q.shape[-1] ** -0.5
    return q if scaling is None or scaling == usual else q * (scaling / usual)


def shared(x: Tensor, q: Tensor, method: Attention) -> Tensor:
    """Repeat keys or values for each head of q where the method takes no groups: [B, K, S, ·] -> [B, H, S, ·]."""
    return x if method.grouped else x.repeat_interleave(q.shape[1] // x.shape[1], dim=1)


def _attend(method: AtAnyLength, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend from the last n of S tokens: all at once, or from the state of those before them."""
    n, S = q.shape[2], k.shape[2]
    if n == S:
        o: Tensor = method(q, k, v)
        return o
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        raise CannotError(f"{method.label}: no gradient goes through a cache; train with whole sequences")
    # a capacity of its own for each length would build the method anew for each token
    capacity = 1 << (S - 1).bit_length()
    before = S - n
    # no state depends on the queries before, which are not kept
    state = method.state_after((q.new_zeros(*q.shape[:2], before, q.shape[3]), k[:, :, :before], v[:, :, :before]), capacity)
    return method.go_on((q, k[:, :, before:], v[:, :, before:]), state, capacity)[0]
