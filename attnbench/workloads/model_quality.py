"""The quality pass: what a whole model says with another attention in its layers, beside what it says with its own.

S sequences, N tokens.
"""

import copy
import hashlib
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from attnbench import registry
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job
from attnbench.schema.model import Model
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import DIVERGENCE, MQAR, NEEDLE, PERPLEXITY, Failed, Measured, Outcome, Series, Status
from attnbench.store.cache import cache_folder
from attnbench.store.files import write_durably
from attnbench.workloads.setting import set_up
from attnbench.workloads.whole_model import model_of, read_model, swapped_numbers

if TYPE_CHECKING:
    from attnbench.hf.text import Text

_SEQUENCES, _AT_ONCE = 64, 4
_RATE = 1e-3


def measure_quality(job: Job) -> Outcome:
    """Measure perplexity and divergence after what the cell states was learnt. Raises what model and method raise."""
    from attnbench import hf
    from attnbench.hf.probes import associations, needle
    from attnbench.hf.text import text_of

    cell, about = job.sized, model_of(job.cell)
    set_up(cell, job.seed)
    kind = registry.load(cell.method)
    p, text = cell.problem, text_of(about.text, about.weights)
    with torch.enable_grad():
        own = _own_model(cell, about, text, job.seed)
        model = copy.deepcopy(own)
        params: dict[str, Any] = dict(cell.params)
        if kind.in_models:
            model.set_attn_implementation(kind.in_models)
        elif about.matched or about.tuned:
            budget = hf.Budget(N=p.N, B=p.B, match_updates=about.matched, tune_updates=about.tuned, seed=job.seed)
            layers = swapped_numbers(model, about)
            model = hf.linearize(model, cell.method, text.learnt, layers, budget=budget, capacity=p.N, **params)
        else:
            torch.manual_seed(job.seed)
            hf.swap(model, cell.method, swapped_numbers(model, about), capacity=p.N, **params)
    sequences = text.sequences(_SEQUENCES, p.N)
    perplexity, divergence = _judged(model.eval(), own.eval(), sequences.to(cell.device))
    known, source = text.learnt.unique(), torch.Generator().manual_seed(job.seed)
    pairs, hidden = associations(known, _SEQUENCES, p.N, source), needle(sequences, known, source)
    facts: Facts = {
        "data": text.name,
        "parameters": sum(x.numel() for x in model.parameters()),
        "held_out": len(sequences),
        "threads": torch.get_num_threads(),
        "transformers": registry.installed_version("transformers") or "",
    }
    if not (math.isfinite(perplexity) and math.isfinite(divergence)):
        return Failed(status=Status.ERROR, reason="what the model says is not finite", facts=facts)
    scores = {PERPLEXITY: perplexity, DIVERGENCE: divergence, MQAR: pairs.answered(model), NEEDLE: hidden.answered(model)}
    return Measured(samples={name: Series(unit="1", values=(value,)) for name, value in scores.items()}, facts=facts)


@torch.no_grad()
def _judged(model: Any, own: Any, sequences: Tensor) -> tuple[float, float]:  # noqa: ANN401 - models of transformers
    """Return exp of the mean loss, and the mean over positions of KL(own ‖ model) in nats: int64 [S, N]."""
    loss = divergence = 0.0
    for batch in sequences.split(_AT_ONCE):
        said, usual = (each(batch, use_cache=False).logits.float().log_softmax(-1) for each in (model, own))
        loss += float(F.nll_loss(said[:, :-1].flatten(0, 1), batch[:, 1:].flatten())) * len(batch)
        divergence += float((usual.exp() * (usual - said)).sum(-1).mean()) * len(batch)
    # rounded it may come out below 0, which no divergence is; NaN stays, as it would not in Python's own max
    found = torch.tensor([loss, divergence], dtype=torch.float64) / len(sequences)
    return float(found[0].exp()), float(found[1].clamp(min=0))


def _own_model(cell: Cell, about: Model, text: "Text", seed: int) -> Any:  # noqa: ANN401 - a model of transformers
    """Return the model with its own attention: of the weights that are given, or trained here on the text.

    What was trained is kept in the user's cache where that can be written, for every method of a suite begins with the same
    model.
    """
    from attnbench.hf import linearizing
    from attnbench.hf.text import drawn

    torch.manual_seed(seed)
    model, N, B = read_model(cell), cell.problem.N, cell.problem.B
    vocabulary, largest = model.config.get_text_config().vocab_size, int(torch.cat([text.learnt, text.held_out]).max())
    if vocabulary <= largest:
        raise ValueError(f"{about.config} has {vocabulary} tokens; among the {text.name} there is number {largest}")
    if about.weights or not about.learnt:
        return model
    versions = {name: registry.installed_version(name) for name in ("torch", "transformers")}
    trainer = hashlib.sha256(Path(linearizing.__file__).read_bytes()).hexdigest()
    said = [model.config.to_json_string(), text.name, about.learnt, seed, N, B, str(model.dtype), cell.device_kind, versions]
    name = f"{hashlib.sha256(json.dumps([*said, trainer, _RATE]).encode()).hexdigest()[:24]}.safetensors"
    # of weights that are tied one stands for both
    weights = dict(model.named_parameters())

    def was_kept() -> bool:
        """Take the weights that were kept, if they are of such a model."""
        with suppress(OSError, SafetensorError):
            kept = load((cache_folder() / "models" / name).read_bytes())
            if kept.keys() == weights.keys():
                model.load_state_dict(kept, strict=False)
                return True
        return False

    if was_kept():
        return model
    linearizing.train_on_text(model, drawn(text.learnt, N, B, seed), about.learnt, _RATE)
    if was_kept():
        # another lane trained it meanwhile: the first is that of all, for on a GPU no two are alike bit for bit
        return model
    with suppress(OSError):
        folder = cache_folder() / "models"
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(folder / name, save({each: x.detach().cpu().contiguous() for each, x in weights.items()}))
    return model
