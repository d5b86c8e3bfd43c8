"""Hearing what the layers of a model of transformers call their attention with; queries, keys and values are recorded.

S sequences, X heads of all layers, N tokens, D query/key width, M value width.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, PreTrainedModel

from attnbench.hf.refusals import CannotError
from attnbench.hf.saving import load
from attnbench.hf.swapping import swapped_in
from attnbench.hf.text import text_of
from attnbench.store.files import write_named
from attnbench.training.block import evaluating

Attend = Callable[..., Any]


def record(model: PreTrainedModel, tokens: Tensor, out: str | Path) -> dict[str, tuple[int, ...]]:
    """Write what a model's layers attend, as inputs of suites: `inputs: recorded`, `recording: out`; return the shapes.

    `tokens` is int64 [S, N]. Queries and keys are those after the rotary embedding, multiplied so that 1 / √D is their scale; a
    head of k that serves several of q is repeated for each of them. Numbers are float16. Raises CannotError where the
    file's name is not right or the layers are of unlike widths, and OSError.
    """
    if (file := Path(out)).suffix != ".safetensors":
        raise CannotError(f"{file}: the name must end in .safetensors")
    found = heard(model, tokens)
    write_named(file, save({name: x.half().contiguous() for name, x in found.items()}))
    return {name: tuple(x.shape) for name, x in found.items()}


def record_folder(folder: Path, out: Path, text: str, N: int, sequences: int) -> dict[str, tuple[int, ...]]:
    """Record the model in a folder, swapped or not, on a text; `record` says what. Raises what reading either raises."""
    swapped = getattr(AutoConfig.from_pretrained(folder), "attnbench", None)
    model = load(folder) if swapped else AutoModelForCausalLM.from_pretrained(folder)
    return record(model, text_of(text, str(folder)).sequences(sequences, N), out)


@torch.no_grad()
def heard(model: PreTrainedModel, tokens: Tensor) -> dict[str, Tensor]:
    """Return q and k [S, X, N, D] and v [S, X, N, M] of these sequences, heads in the order of layers. Raises CannotError."""
    heads: dict[str, list[Tensor]] = {"q": [], "k": [], "v": []}
    sizes, largest = model.config.get_text_config(), int(tokens.max())
    if largest >= sizes.vocab_size:
        raise CannotError(f"the model has {sizes.vocab_size} tokens; among those that it is to read there is number {largest}")
    if (positions := getattr(sizes, "max_position_embeddings", None)) and tokens.shape[1] > positions:
        raise CannotError(f"the model has {positions} positions, which are fewer than N={tokens.shape[1]}")

    def listen(attend: Attend, module: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **given: Any) -> Any:  # noqa: ANN401
        if swapped := swapped_in(module):
            theirs = {each.name for each in swapped.projections} - {name.removesuffix("_proj") for name in swapped.into}
            if unused := " and ".join(sorted(heads.keys() - theirs)):
                raise CannotError(
                    f"layer {swapped.layer}: {swapped.plan.method} attends other {unused} than those of the layer"
                )
        scale = given.get("scaling") or query.shape[-1] ** -0.5
        times = query.shape[1] // key.shape[1]
        heads["q"].append(query * (scale * query.shape[-1] ** 0.5))
        heads["k"].append(key.repeat_interleave(times, dim=1))
        heads["v"].append(value.repeat_interleave(times, dim=1))
        return attend(module, query, key, value, *args, **given)

    with attention_called_through(listen), evaluating(model):
        model(tokens.to(model.device), use_cache=False)
    shapes = {name: {tuple(x.shape[2:]) for x in parts} for name, parts in heads.items()}
    if unlike := next((name for name, found in shapes.items() if len(found) != 1), None):
        widths = " and ".join(map(str, sorted(shapes[unlike]))) or "no layer that asks for an implementation by name"
        raise CannotError(f"the layers' {unlike} cannot be one tensor: there is {widths}")
    return {name: torch.cat(parts, dim=1).cpu() for name, parts in heads.items()}


@contextmanager
def attention_called_through(around: Attend) -> Iterator[None]:
    """Let every layer of every model in this process call `around(attend, …)` in place of its attention `attend(…)`."""
    usual = AttentionInterface.get_interface

    def get_interface(self: Any, name: str, default: Attend) -> Attend:  # noqa: ANN401
        return partial(around, usual(self, name, default))

    AttentionInterface.get_interface = get_interface
    try:
        yield
    finally:
        AttentionInterface.get_interface = usual
