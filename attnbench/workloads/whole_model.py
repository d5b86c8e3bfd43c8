"""A whole model of transformers around the method: the time to its first token, the next token at a context, an update.

B sequences, N tokens.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention
from attnbench.measure import devices
from attnbench.measure.host_memory import Reading
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.model import Model
from attnbench.schema.noun import Facts
from attnbench.suite.models import file_of
from attnbench.workloads.setting import Modelled, set_up

_LOOKS = 3
"""Calls in which the attention's share of the time is looked at."""
_RATE = 1e-4


@dataclass(kw_only=True)
class WholeModel(Modelled):
    """`method` is the attention of a swapped layer, and `inputs` are token numbers, int64 [B, n], which all calls take."""

    model: Any
    own: str
    """The implementation of the model's own attention, where that is what is measured; else empty."""

    @property
    def facts(self) -> Facts:
        """What a reader must know about the model."""
        layers = self.model.config.get_text_config().num_hidden_layers
        parameters = sum(x.numel() for x in self.model.parameters())
        return {"parameters": parameters, "layers": layers, "transformers": registry.installed_version("transformers") or ""}

    def cache(self) -> Any:  # noqa: ANN401 - transformers'
        """Return an empty cache, where the method keeps one."""
        from transformers import DynamicCache

        return DynamicCache(config=self.model.config) if self.own or self.method.decodes else None

    def read(self, tokens: Tensor, cache: Any) -> Tensor:  # noqa: ANN401
        """Return what the model says after the last of these tokens: int64 [B, n] -> [B, 1, vocabulary]."""
        said: Tensor = self.model(tokens, past_key_values=cache, use_cache=cache is not None, logits_to_keep=1).logits
        return said

    def output(self) -> Reading:
        """Return the bytes of what is said after the last token, or where all are predicted at each position."""
        tokens, vocabulary = self.inputs[0], self.model.config.get_text_config().vocab_size
        positions, words = (tokens.numel(), "B N") if self.cell.workload.learns else (len(tokens), "B")
        size = positions * vocabulary * next(self.model.parameters()).element_size()
        return Reading(size, f"{words} x vocabulary x element size")

    def attention_share(self) -> float | None:
        """Return the share of the time that layers spend in their attention, without its projections; the median of calls.

        None where a backward takes time that belongs to no layer alone.
        """
        from attnbench.hf.recording import attention_called_through

        if self.cell.workload.learns:
            return None
        wait, shares, seconds = devices.clock(self.cell.device, "wall").synchronize, list[float](), list[float]()

        def timed(call: Callable[..., object], *args: Any, **given: Any) -> object:  # noqa: ANN401
            wait()
            begin = time.perf_counter()
            made = call(*args, **given)
            wait()
            seconds.append(time.perf_counter() - begin)
            return made

        with attention_called_through(timed):
            for _ in range(_LOOKS):
                seconds.clear()
                timed(self.call)
                # the whole call ends after the attention of all layers
                *attention, whole = seconds
                shares.append(sum(attention) / whole)
        return statistics.median(shares)


@dataclass(kw_only=True)
class Prompt(WholeModel):
    """A call reads N tokens from an empty cache, up to what is said first."""

    def forward(self) -> Tensor:
        """Return what is said after the prompt."""
        return self.read(self.inputs[0], self.cache())

    def state_bytes(self) -> int | None:
        """Return the bytes that the cache of all layers keeps after the prompt."""
        cache = self.cache()
        if cache is None:
            return None
        self.read(self.inputs[0], cache)
        return cache_bytes(cache, self.method)


@dataclass(kw_only=True)
class NextToken(WholeModel):
    """A call reads one token after N - 1 others, whose cache each call is given anew."""

    filled: Any
    kept: list[tuple[Any, dict[str, Any]]] = field(init=False)
    """The layers of the cache and what they hold after N - 1 tokens."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kept = [(layer, dict(vars(layer))) for layer in self.filled.layers]

    def forward(self) -> Tensor:
        """Return what is said after the token."""
        for layer, held in self.kept:
            vars(layer).update(held)
        self.filled.layers = [layer for layer, _ in self.kept]
        return self.read(self.inputs[0], self.filled)

    def state_bytes(self) -> int:
        """Return the bytes that the cache of all layers keeps after N tokens."""
        self.forward()
        return cache_bytes(self.filled, self.method)


@dataclass(kw_only=True)
class Update(WholeModel):
    """A call is forward, backward and a step of AdamW on N tokens, each of which is predicted."""

    optimiser: torch.optim.Optimizer

    def forward(self) -> Tensor:
        """Return the loss, under autograd."""
        loss: Tensor = self.model(self.inputs[0], labels=self.inputs[0], use_cache=False).loss
        return loss

    def call(self) -> object:
        """Make one update."""
        loss = self.forward()
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return loss.detach()


def whole_model(cell: Cell, seed: int) -> WholeModel:
    """Build the model with the method in its layers, and what its workload needs. Raises what model and method raise."""
    from attnbench import hf

    set_up(cell, seed)
    source, p, own = torch.Generator().manual_seed(seed), cell.problem, registry.load(cell.method).in_models
    model = read_model(cell, attn_implementation=own or "sdpa")
    if not own:
        params: dict[str, Any] = dict(cell.params)
        hf.swap(model, cell.method, swapped_numbers(model, model_of(cell)), capacity=p.N, **params)
    vocabulary = model.config.get_text_config().vocab_size
    tokens = torch.randint(vocabulary, (p.B, p.N), generator=source).to(cell.device)
    # of the model's own attention too there is a method, which says what its tier is
    swapped = swapped_layers(model)
    method = swapped[0].attention.own if swapped else registry.build_for(cell.call)
    about = {"cell": cell, "method": method, "model": model, "own": own}
    if cell.workload is Workload.MODEL_TRAIN:
        model.train()
        return Update(**about, inputs=(tokens,), optimiser=torch.optim.AdamW(model.parameters(), _RATE))
    model.eval()
    if cell.workload is Workload.MODEL_PREFILL:
        return Prompt(**about, inputs=(tokens,))
    reader = Prompt(**about, inputs=(tokens[:, :-1],))
    filled = reader.cache()
    if p.N > 1:
        reader.read(tokens[:, :-1], filled)
    return NextToken(**about, inputs=(tokens[:, -1:],), filled=filled)


def read_model(cell: Cell, **options: str) -> Any:  # noqa: ANN401 - a model of transformers
    """Return the model that a cell states, with its own attention: of its weights, or of random ones by the seed of torch."""
    from transformers import AutoConfig, AutoModelForCausalLM

    about, dtype = model_of(cell), getattr(torch, cell.problem.dtype)
    if about.weights:
        return AutoModelForCausalLM.from_pretrained(about.weights, dtype=dtype, **options).to(cell.device)
    config = AutoConfig.from_pretrained(file_of(about.config))
    return AutoModelForCausalLM.from_config(config, dtype=dtype, **options).to(cell.device)


def swapped_numbers(model: Any, about: Model) -> list[int]:  # noqa: ANN401
    """Return the numbers of the layers that do not keep their own attention."""
    every = about.own_every
    layers = range(model.config.get_text_config().num_hidden_layers)
    return [layer for layer in layers if not every or (layer + 1) % every]


def model_of(cell: Cell) -> Model:
    """Return the model that a cell states. Raises ValueError where it states none."""
    if cell.model is None:
        raise ValueError(f"workload {cell.workload} needs a model, and the cell states none: model is missing")
    return cell.model


def cache_bytes(cache: Any, method: Attention) -> int:  # noqa: ANN401
    """Return the bytes that a cache keeps, of states by the method's own count."""
    tensors = (x for layer in cache.layers for x in (layer.keys, layer.values) if isinstance(x, Tensor))
    states = (state for layer in cache.layers for _, state in getattr(layer, "held", ()))
    return sum(x.nbytes for x in tensors) + sum(map(method.state_bytes, states))


def swapped_layers(model: Any) -> list[Any]:  # noqa: ANN401
    """Return the methods that stand in the layers of a model of transformers."""
    from attnbench.hf.swapping import attentions, swapped_in

    return [swapped for _, module in attentions(model) if (swapped := swapped_in(module))]
