"""Recordings: queries, keys and values that a trained model makes of sequences it has not seen.

S sequences, X heads of all layers, N tokens, D query/key width, M value width.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor

from attnbench.schema.cell import Cell
from attnbench.store.files import write_named
from attnbench.training.alphabet import Alphabet
from attnbench.training.block import Block
from attnbench.training.checkpoint import read, weights
from attnbench.training.tasks import task_of
from attnbench.training.transformer import Transformer, plan_of

NAMES = ("q", "k", "v")
# which projections stand for a name: queries and keys may be one
_SOURCES = {"q": ("q", "qk"), "k": ("k", "qk"), "v": ("v",)}


class RecordingError(ValueError):
    """A checkpoint that nothing can be recorded from; the message says which and why."""


def record_file(checkpoint: Path, out: Path, sequences: int, dtype: torch.dtype = torch.float16) -> dict[str, tuple[int, ...]]:
    """Write q, k and v of a checkpoint's model as safetensors, and give their shapes. Raises RecordingError and OSError."""
    model, about = trained(checkpoint)
    found = record(model, sequences, dtype)
    words = {"cell": about["cell"], "update": about.get("update", ""), "torch": about.get("torch", "")}
    write_named(out, save(found, metadata=words))
    return {name: tuple(x.shape) for name, x in found.items()}


def trained(checkpoint: Path) -> tuple[Transformer, dict[str, str]]:
    """The model of a checkpoint, on the CPU, and what else the file says. Raises RecordingError."""
    try:
        about, tensors = read(checkpoint)
        cell = Cell.model_validate_json(about["cell"]).model_copy(update={"device": "cpu"})
        plan, done = plan_of(cell), int(about["update"])
        if done < plan.updates:
            raise RecordingError(f"{checkpoint} is of a training that ended after {done:,} of {plan.updates:,} updates")
        model = Transformer(cell, Alphabet.of(task_of(plan, cell.problem.N)), seed=0)
        model.load_state_dict(weights(tensors))
    except RecordingError:
        raise
    except ImportError as error:
        raise RecordingError(f"{checkpoint}: {error}") from error
    except (OSError, SafetensorError, LookupError, ValueError, RuntimeError) as error:
        raise RecordingError(f"{checkpoint} cannot be read as a trained model: {error}") from error
    return model.eval(), about


@torch.no_grad()
def record(model: Transformer, sequences: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Q and k [S, X, N, D], v [S, X, N, M] of held-out sequences, as projected: before what the method does to them.

    Layer by layer, head by head; where heads of q share one of k, that stands once for each of them. Raises RecordingError
    where the method has no such projections.
    """
    cell = model.cell
    tokens = task_of(model.plan, cell.problem.N).held_out(sequences).tokens
    layers = [_through(model, tokens[first : first + cell.problem.B]) for first in range(0, len(tokens), cell.problem.B)]
    return {name: torch.cat([each[name] for each in layers]).to(dtype).contiguous() for name in NAMES}


def _through(model: Transformer, tokens: Tensor) -> dict[str, Tensor]:
    """Of one batch, the heads of all layers side by side."""
    # the method may be built for whole batches only
    rows = torch.arange(model.cell.problem.B) % len(tokens)
    found: dict[str, list[Tensor]] = {name: [] for name in NAMES}
    with model.precision:
        x = model.embed(tokens[rows])
        for block in model.layers:
            for name, part in _named(block, x).items():
                found[name].append(part[: len(tokens)])
            x, _ = block(x)
    return {name: torch.cat(parts, dim=1) for name, parts in found.items()}


def _named(block: Block, x: Tensor) -> dict[str, Tensor]:
    raw = {each.name: part for each, part in zip(block.projections, block.raw(x), strict=True)}
    return {name: _of_every_head(block, _source(raw, name)) for name in NAMES}


def _source(raw: dict[str, Tensor], name: str) -> Tensor:
    for source in _SOURCES[name]:
        if source in raw:
            return raw[source]
    raise RecordingError(f"the method is made of {', '.join(raw)}; there is no {name} to record")


def _of_every_head(block: Block, x: Tensor) -> Tensor:
    return x.repeat_interleave(block.attention.problem.H // x.shape[1], dim=1)
