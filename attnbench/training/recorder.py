"""Recording the queries, keys and values that a trained model makes of sequences it has not seen.

S sequences, X heads of all layers, N tokens, D query/key width, M value width.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor

from attnbench.schema.cell import Cell
from attnbench.schema.errors import UsageError
from attnbench.store.files import write_named
from attnbench.training.checkpoint import read, weights
from attnbench.training.tasks import task_of
from attnbench.training.transformer import Transformer, plan_of

# the projections to record by each name: queries and keys may be one
_SOURCES = {"q": ("q", "qk"), "k": ("k", "qk"), "v": ("v",)}


class CheckpointError(UsageError):
    """Nothing can be recorded from a checkpoint; the message says which and why."""


def record_file(checkpoint: Path, out: Path, sequences: int) -> dict[str, tuple[int, ...]]:
    """Write q, k and v of a checkpoint's model in float16, and return their shapes. Raises CheckpointError, OSError."""
    model, about = trained(checkpoint)
    found = record(model, sequences, torch.float16)
    words = {"cell": about["cell"], "update": about.get("update", ""), "torch": about.get("torch", "")}
    write_named(out, save(found, metadata=words))
    return {name: tuple(x.shape) for name, x in found.items()}


def trained(checkpoint: Path) -> tuple[Transformer, dict[str, str]]:
    """Return the model of a checkpoint, on the CPU, and the file's metadata. Raises CheckpointError."""
    try:
        about, tensors = read(checkpoint)
        cell = Cell.model_validate_json(about["cell"]).model_copy(update={"device": "cpu"})
        plan, done = plan_of(cell), int(about["update"])
        if done < plan.updates:
            raise CheckpointError(f"{checkpoint} is from a training that ended after {done:,} of {plan.updates:,} updates")
        task = task_of(plan, cell.problem.N)
        if about["data"] != task.name:
            # what is held out here may be what it was trained on
            raise CheckpointError(f"{checkpoint} was trained on {about['data']}; what is there now is {task.name}")
        model = Transformer(cell, task.alphabet, seed=0)
        model.load_state_dict(weights(tensors))
    except ImportError as error:
        raise CheckpointError(f"{checkpoint}: {error}") from error
    except (OSError, SafetensorError, LookupError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{checkpoint} cannot be read as a trained model: {error}") from error
    return model.eval(), about


@torch.no_grad()
def record(model: Transformer, sequences: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Return q and k [S, X, N, D] and v [S, X, N, M] of held-out sequences, as projected: before the method changes them.

    Heads are in the order of layers; where heads of q share one of k, that one is repeated for each of them. Raises
    CheckpointError where the method has no such projections.
    """
    B, H = model.cell.problem.B, model.cell.problem.H
    tokens = task_of(model.plan, model.cell.problem.N).held_out(sequences).tokens
    batches: dict[str, list[Tensor]] = {name: [] for name in _SOURCES}
    for batch in tokens.split(B):
        # the method may be built for whole batches only
        rows = torch.arange(B) % len(batch)
        heads: dict[str, list[Tensor]] = {name: [] for name in _SOURCES}
        with model.precision:
            x = model.embed(batch[rows])
            for block in model.layers:
                raw = {each.name: part for each, part in zip(block.projections, block.raw(x), strict=True)}
                for name, sources in _SOURCES.items():
                    found = next((raw[source] for source in sources if source in raw), None)
                    if found is None:
                        raise CheckpointError(f"the method is made of {', '.join(raw)}; there is no {name} to record")
                    heads[name].append(found.repeat_interleave(H // found.shape[1], dim=1)[: len(batch)])
                x, _ = block(x)
        for name, parts in heads.items():
            batches[name].append(torch.cat(parts, dim=1))
    return {name: torch.cat(parts).to(dtype).contiguous() for name, parts in batches.items()}
