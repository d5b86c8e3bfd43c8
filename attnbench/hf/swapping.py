"""Methods with gates, states and weights of their own in chosen layers of a model of transformers, whose projections stay.

The attention module of a layer keeps its projections, its norms and its rotary embedding; what it then calls with q, k and v
is the method, which becomes a part of it called `swapped`. B rows, n tokens, H heads, K heads of k and v, W the model's width.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from inspect import signature
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.cache_utils import Cache, EncoderDecoderCache

from attnbench import registry
from attnbench.api import Causality, Problem, Projection, Scalar
from attnbench.hf.any_length import AtAnyLength
from attnbench.hf.cache import StateLayer
from attnbench.hf.refusals import CannotError, refuse_unknown
from attnbench.hf.registering import scaled, shared
from attnbench.hf.rows import rows_alike
from attnbench.training.block import Learns, plainly

NAME = "attnbench.swapped"
"""The attention implementation of swapped layers."""
_STD = 0.02
_PROJECTIONS = "qkvo"
_KEPT = 64
"""The masks whose rows are kept for a backward."""

Kwargs = dict[str, Any]


@dataclass(frozen=True)
class Swap:
    """The entry in a model's config, so that a model that is saved can be swapped again."""

    method: str
    params: dict[str, Scalar]
    layers: list[int]
    reuse: str
    rotary: bool
    capacity: int


def swap(
    model: PreTrainedModel,
    method: str,
    layers: Sequence[int] | None = None,
    *,
    reuse: str = _PROJECTIONS,
    rotary: bool = True,
    capacity: int | None = None,
    **params: Scalar,
) -> PreTrainedModel:
    """Put a method into layers of a model, counted from 0 (all by default), in place; return the model.

    `reuse` names the projections that are kept; a query, key or value left out is made anew from the layer's tokens, from
    N(0, 0.02²) and without a rotary embedding, as are gates and whatever else the method takes. With rotary=False none of the
    layer's queries and keys is rotated. A state has room for `capacity` tokens, by default as many as the model has positions.
    Raises CannotError on a layer or a place where the method cannot stand, and what the registry raises.
    """
    there = list(attentions(model))
    found = dict(there)
    if not found:
        raise CannotError(f"{type(model).__name__} has no causal attention that transformers lets one replace")
    if len(found) < len(there):
        raise CannotError(f"{type(model).__name__} has several layers of one number; swap in the part of it that is meant")
    chosen = sorted(found) if layers is None else list(layers)
    if strange := [layer for layer in chosen if layer not in found]:
        known = ", ".join(map(str, sorted(found)))
        raise CannotError(f"there is no layer {strange[0]}: the model has attention in layers {known}")
    if taken := [layer for layer in chosen if swapped_in(found[layer])]:
        raise CannotError(f"layer {taken[0]} is swapped already; attnbench.hf.unswap(model) first")
    if set(reuse) - set(_PROJECTIONS) or "o" not in reuse:
        raise CannotError(f"reuse={reuse!r}: name those of q, k and v that are kept, and o, which always is: {_PROJECTIONS!r}")
    if capacity is None:
        capacity = int(getattr(model.config.get_text_config(), "max_position_embeddings", 2048))
    if capacity < 1:
        raise CannotError(f"capacity={capacity}: a state has room for 1 token at least")
    plan = Swap(method, params, chosen, reuse, rotary, capacity)
    # all are built before any is put in its place: a refusal leaves the model as it was
    made = {layer: Swapped(plan, found[layer], _owner(model, found[layer]), layer, len(found)) for layer in chosen}
    # transformers by itself reads a swapped model's config, and leaves its methods out
    earlier = getattr(model.config, "attnbench", []) if any(map(swapped_in, found.values())) else []
    for layer, swapped in made.items():
        swapped.enter(found[layer], _owner(model, found[layer]))
    model.config.attnbench = [*earlier, asdict(plan)]
    return model


def unswap(model: PreTrainedModel) -> PreTrainedModel:
    """Take all swapped methods out of a model, which then computes what it did before; return the model."""
    for _, module in attentions(model):
        if swapped := swapped_in(module):
            swapped.leave(module)
    if hasattr(model.config, "attnbench"):
        del model.config.attnbench
    return model


def attentions(model: nn.Module) -> Iterator[tuple[int, Any]]:
    """Walk over the modules of causal self-attention that call an implementation by their config's name, by layer."""
    for module in model.modules():
        layer = getattr(module, "layer_idx", None)
        is_one = "Attention" in type(module).__name__ and isinstance(layer, int) and hasattr(module, "config")
        is_causal = getattr(module, "is_causal", True) and not getattr(module, "is_cross_attention", False)
        # what transformers itself asks before it replaces an attention
        if is_one and is_causal and _owner(model, module)._can_set_attn_implementation():
            yield int(layer), module  # type: ignore[arg-type]


def swapped_in(module: nn.Module) -> "Swapped | None":
    """Return the method that stands in a module of attention, if one does."""
    found = getattr(module, "swapped", None)
    return found if isinstance(found, Swapped) else None


def _owner(model: nn.Module, module: nn.Module) -> PreTrainedModel:
    """Find the innermost model around a module: the one that is given the attention mask and the positions."""
    models = [each for each in model.modules() if isinstance(each, PreTrainedModel)]
    return [each for each in models if any(part is module for part in each.modules())][-1]


class Swapped(nn.Module):
    """A method in a layer of a model, with what it needs beside the layer's projections.

    Raises what the registry raises, and CannotError where the method cannot stand in a causal model.
    """

    def __init__(self, plan: Swap, module: Any, owner: PreTrainedModel, layer: int, layers: int) -> None:  # noqa: ANN401
        super().__init__()
        self.plan, self.layer = plan, layer
        kind, config = registry.load(plan.method), module.config
        if kind.causality is not Causality.FULL:
            raise CannotError(f"{plan.method} is not causal, and the layers of this model are")
        heads = int(getattr(module, "num_heads", 0) or config.num_attention_heads)
        kv_heads = int(getattr(config, "num_key_value_heads", 0) or heads)
        if not kind.grouped or getattr(module, "num_key_value_groups", None) == 1:
            # JetMoE itself repeats keys, whose number is in its config
            kv_heads = heads
        width = int(getattr(module, "head_dim", 0) or config.hidden_size // heads)
        device = next(chain(module.parameters(), module.buffers(), owner.parameters())).device
        # the layer's own weights may be quantised, to integers or to no parameters at all
        dtype = str(owner.dtype).removeprefix("torch.")
        problem = Problem(H=heads, N=plan.capacity, D=width, kv_heads=kv_heads, dtype=dtype, causal=True)
        told = {name: value for name, value in (("layer", layer), ("layers", layers)) if name in signature(kind).parameters}
        self.attention = AtAnyLength(plan.method, {**told, **plan.params}, problem, device)
        self.projections = kind.projections(problem)
        kept = {name: Projection(name, problem.H if name == "q" else problem.kv_heads, problem.D) for name in plan.reuse}
        # by names of their own: a ModuleDict cannot hold what is called keys
        self.into = nn.ModuleDict(
            {
                f"{each.name}_proj": _linear(config.hidden_size, each.heads * each.width)
                for each in self.projections
                if kept.get(each.name) != each
            }
        ).to(device=device, dtype=owner.dtype)
        self._undo: list[Any] = []
        # what the model and the layer were called with, from which the method is given its part
        self._made: dict[str, Tensor] | None = None
        self._seen: Tensor | None = None
        self._seen_by: dict[int, Tensor | None] = {}
        self._cache: StateLayer | None = None
        self._before: list[tuple[tuple[Tensor, ...], Tensor | None]] = []

    def enter(self, module: Any, owner: nn.Module) -> None:  # noqa: ANN401
        """Become a part of a layer's attention, which calls it from now on; `owner` is the model around it."""
        self._names = [*signature(owner.forward).parameters]
        self._undo = [
            module.register_forward_pre_hook(self._listen, with_kwargs=True),
            owner.register_forward_pre_hook(self._listen_to_model, with_kwargs=True),
        ]
        self._config = module.config
        module.config = copy.copy(module.config)
        module.config._attn_implementation_internal = NAME
        # a layer in evaluation mode learns nothing, and neither does what stands in it
        module.add_module("swapped", self.train(module.training))

    def leave(self, module: Any) -> None:  # noqa: ANN401
        """Leave the layer's attention as it was."""
        for handle in self._undo:
            handle.remove()
        module.config = self._config
        del module.swapped

    def learn(self) -> None:
        """Learn what no gradient reaches from the batches that a backward came through."""
        before = self._before[::-1]
        self._before.clear()
        for inputs, choices in before:
            with plainly(inputs[0]):
                self.attention.own.learn(*inputs, choices=choices)  # type: ignore[operator]

    def _listen_to_model(self, _: nn.Module, args: tuple[Any, ...], kwargs: Kwargs) -> None:
        """Keep which tokens exist, as the model is told, and learn from the batch before. Raises CannotError."""
        given = dict(zip(self._names, args, strict=False)) | kwargs
        mask, positions = given.get("attention_mask"), given.get("position_ids")
        if mask is not None and (not isinstance(mask, Tensor) or mask.dim() != 2):
            raise CannotError(
                f"{self.plan.method}: a mask of one's own, or of a static cache, cannot be taken; give one of [rows, tokens]"
            )
        if mask is None and positions is not None and bool((positions.diff(dim=-1) != 1).any()):
            raise CannotError(f"{self.plan.method}: sequences packed into one row cannot be taken; give one row for each")
        self._seen = None if mask is None else mask.bool()
        if self.training and torch.is_grad_enabled():
            # here and not in the layer, which is called once more where its activations are checkpointed
            self.learn()

    def _listen(self, _: nn.Module, args: tuple[Any, ...], kwargs: Kwargs) -> tuple[tuple[Any, ...], Kwargs]:
        """Project the layer's tokens, as the layer does before it attends, and give the cache a layer for the state."""
        mask = kwargs.get("attention_mask")
        # a backward calls checkpointed layers once more, with the mask that they had; other batches may have been read since
        address = mask.data_ptr() if isinstance(mask, Tensor) else id(mask)
        if torch._C._current_graph_task_id() >= 0:
            self._seen = None if mask is None else self._seen_by.get(address, self._seen)
        elif self.training and mask is not None:
            if len(self._seen_by) == _KEPT:
                del self._seen_by[next(iter(self._seen_by))]
            self._seen_by[address] = self._seen
        tokens = kwargs.get("hidden_states", args[0] if args else None)
        self._made = {name: each(tokens) for name, each in self.into.items()}
        # models call it past_key_values or layer_past
        cache = next((x for x in (*args, *kwargs.values()) if isinstance(x, Cache)), None)
        self._cache = None if cache is None else self._layer_of(cache)
        if not self.plan.rotary and kwargs.get("position_embeddings") is not None:
            cos, sin = kwargs["position_embeddings"]
            kwargs["position_embeddings"] = torch.ones_like(cos), torch.zeros_like(sin)
        return args, kwargs

    def _layer_of(self, cache: Cache) -> StateLayer:
        if isinstance(cache, EncoderDecoderCache):
            kind = type(cache).__name__
            raise CannotError(f"{self.plan.method}: a cache of type {kind} cannot hold its state; take a DynamicCache")
        while len(cache.layers) <= self.layer:
            cache.layers.append(cache.layer_class_to_replicate())
        there = cache.layers[self.layer]
        if isinstance(there, StateLayer):
            return there
        if there.get_seq_length():
            raise CannotError(f"the cache holds keys of layer {self.layer} from before it was swapped; begin with an empty one")
        cache.layers[self.layer] = new = StateLayer()
        return new

    def forward(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Attend the layer's tokens: [B, H, n, D], [B, K, n, D], [B, K, n, M] -> [B, H, n, M]."""
        own, n = self.attention.own, query.shape[2]
        # or a state would outlive its cache
        cache, self._cache = self._cache, None
        inputs = self._inputs(scaled(query, scaling), shared(key, query, own), shared(value, query, own))
        o = value.new_zeros(*query.shape[:3], own.problem.M)
        if cache is not None and cache.count > n:
            self._go_on(cache, inputs, o)
            return o
        learns = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
        held = []
        for rows in rows_alike(self._seen, n, causal=True):
            part = rows.of_each(inputs, rows.start, n)
            if learns:
                made = self._learning(part, part[0].shape[0] / query.shape[0])
            elif cache is None or not own.decodes:
                made = self.attention(*part)
            else:
                made, state = self.attention.begin(part, self.plan.capacity)
                held.append((rows, state))
            rows.write(made, o, rows.start, n)
        if cache is not None:
            cache.held = tuple(held)
        return o

    def _inputs(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Return what the method takes: the layer's own projections, and those made of its tokens. Raises CannotError."""
        own, place = self.attention.own, f"{self.plan.method}: layer {self.layer}"
        p, given, raw = own.problem, {"q": query, "k": key, "v": value}, []
        made, self._made = self._made, None
        if made is None:
            raise CannotError(f"{place} attends twice in one call, and has one state only; keep its own attention")
        if key.shape[2] != query.shape[2]:
            raise CannotError(f"{place} attends to keys of a cache or of tokens that are not known here; try use_cache=False")
        if (query.shape[1], key.shape[1], query.shape[3], value.shape[3]) != (p.H, p.kv_heads, p.D, p.M):
            raise CannotError(f"{place} attends with other heads or widths than its config says; keep its own attention")
        for each in self.projections:
            if (name := f"{each.name}_proj") in made:
                raw.append(made[name].unflatten(-1, (each.heads, each.width)).transpose(1, 2).to(query.dtype))
            else:
                raw.append(given[each.name])
        return type(own).admit(p, *raw)

    def _learning(self, inputs: tuple[Tensor, ...], share: float) -> Tensor:
        """Attend this share of the rows with gradients; what a method learns without them waits for the next batch."""
        own = self.attention.own
        if not (self.training and isinstance(own, Learns)):
            o: Tensor = self.attention(*inputs)
            return o
        with plainly(inputs[0]):
            choices = own.choose(*inputs)
            seen = tuple(x.detach() for x in inputs), choices
            penalty = share * own.penalty(*inputs, choices=choices)
        o = self.attention(*inputs) if choices is None else self.attention(*inputs, choices=choices)
        penalised: Tensor = _WithPenalty.apply(o, penalty, partial(self._before.append, seen))  # type: ignore[no-untyped-call]
        return penalised

    def _go_on(self, cache: StateLayer, inputs: tuple[Tensor, ...], o: Tensor) -> None:
        """Attend new tokens after those of the states, and keep the states after them; rows that were all padding begin."""
        n = o.shape[2]
        if self._seen is not None and not bool(self._seen[:, -n:].all()):
            raise CannotError(f"{self.plan.method}: new tokens cannot be padded once there is a state; give prompts whole")
        alike = rows_alike(self._seen, cache.count, causal=True)
        first = [rows for rows in alike if rows.start == cache.count - n]
        if not self.attention.own.decodes:
            raise CannotError(f"{self.plan.method} does not decode token by token; generate with use_cache=False")
        if not cache.held and len(first) < len(alike):
            why = "keeps no state under gradients; call the model under torch.no_grad() to decode"
            raise CannotError(f"{self.plan.method} {why}")
        went_on = []
        for rows in first:
            made, state = self.attention.begin(rows.of_each(inputs, 0, n), self.plan.capacity)
            rows.write(made, o, 0, n)
            went_on.append((rows, state))
        for rows, state in cache.held:
            made, after = self.attention.go_on(rows.of_each(inputs, 0, n), state, self.plan.capacity)
            rows.write(made, o, 0, n)
            went_on.append((rows, after))
        cache.held = tuple(went_on)


class _WithPenalty(torch.autograd.Function):
    """Passes an output on, and lets the backward of whatever loss is made of it be that of the loss plus a penalty.

    The backward says that it came by.
    """

    @staticmethod
    def forward(ctx: Any, o: Tensor, penalty: Tensor, say: Callable[[], None]) -> Tensor:  # noqa: ANN401
        """Return the output."""
        ctx.one, ctx.say = torch.ones_like(penalty), say
        return o.view_as(o)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401
        """Return the output's gradient, and 1 for the penalty."""
        ctx.say()
        return gradients[0], ctx.one, None


def _linear(width: int, outputs: int) -> nn.Linear:
    made = nn.Linear(width, outputs)
    nn.init.normal_(made.weight, std=_STD)
    nn.init.zeros_(made.bias)
    return made


def _attend(  # noqa: PLR0913, PLR0917 - as transformers calls it
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,  # noqa: ARG001 - that of the model was kept
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,  # noqa: ARG001 - the method sees as far as it does by itself
    is_causal: bool | None = None,  # noqa: ARG001 - what is not causal was refused
    **others: Any,  # noqa: ANN401
) -> tuple[Tensor, None]:
    """Call the method of a swapped layer, as transformers calls an attention implementation."""
    swapped = swapped_in(module)
    assert swapped is not None
    refuse_unknown(swapped.plan.method, dropout, others)
    return swapped(query, key, value, scaling).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _attend)
