"""Preparing the setting of a job, by its workload; among them those that have a model around the attention."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnbench.api import State
from attnbench.measure.host_memory import Reading
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job
from attnbench.schema.noun import Facts
from attnbench.training.generation import first_tokens, write
from attnbench.training.reading import ByStep, Reader, reader_of
from attnbench.training.tasks import Alphabet, Batch, task_of
from attnbench.training.transformer import Transformer, plan_of
from attnbench.training.update import losses_of, optimiser_of, take
from attnbench.workloads import decoding
from attnbench.workloads.decoding import repeated
from attnbench.workloads.setting import Modelled, Setting, generator, set_up, whole
from attnbench.workloads.whole_model import whole_model


def build_model(cell: Cell, alphabet: Alphabet, seed: int) -> Transformer:
    """Build the model on its device, after setting the process up. Raises what the method raises."""
    set_up(cell, seed)
    return Transformer(cell, alphabet, seed)


@dataclass(kw_only=True)
class Updating(Modelled):
    """A call is forward, backward and a step of the optimiser; no gradient is left."""

    model: Transformer
    optimiser: torch.optim.Optimizer
    batch: Batch

    def forward(self) -> Tensor:
        """Return the loss, under autograd."""
        loss, penalty = losses_of(self.model, self.batch)
        return loss + penalty

    def call(self) -> object:
        """Make one update."""
        return take(self.model, self.optimiser, self.batch)

    def output(self) -> Reading:
        """Return the bytes of what is said at all positions, from which the loss is computed."""
        size = self.batch.targets.numel() * self.model.head.out_features * self.cell.problem.dtype.bytes
        return Reading(size, "B N x numbers that are said at a position x element size")


def updating(cell: Cell, seed: int) -> Updating:
    """Build the model, its optimiser and a batch. Raises what task and method raise."""
    task = task_of(plan_of(cell), cell.problem.N)
    model = build_model(cell, task.alphabet, seed)
    batch = task.batch(cell.problem.B, torch.Generator().manual_seed(seed)).to(cell.device)
    model.train()
    attention, inputs = model.layers[0].attention, (batch.tokens, batch.targets)
    return Updating(cell, attention, inputs, model=model, optimiser=optimiser_of(model), batch=batch)


@dataclass(kw_only=True)
class Generation(Modelled):
    """A call makes all tokens of all sequences; `inputs` are the tokens that stand before them."""

    model: Transformer
    reader: Reader
    source: torch.Generator
    full: list[State]
    """The state of each layer for one sequence after N - 1 tokens; empty where none is kept."""

    def forward(self) -> Tensor:
        """Return the tokens, int64 [B, N]."""
        return write(self.reader, self.cell.problem.N, generator=self.source)

    @torch.inference_mode()
    def trial(self) -> Tensor:
        """Make the part of a call that takes the most memory and from which its time is estimated; returns [B, outputs].

        By steps this is the last one. By whole prefixes it is one of each length, for the allocator cannot use the blocks of
        one length for the next.
        """
        N, first = self.cell.problem.N, first_tokens(self.reader)
        if isinstance(self.reader, ByStep):
            # before the only token of one there is no state
            before = [repeated(state, self.cell.problem.B) for state in self.full] if N > 1 else []
            self.reader.stand(before, N - 1)
            said = self.reader.read(first)
            # otherwise the next trial would hold its own states and these
            self.reader.begin()
            return said
        for length in self.reader.attentions:
            self.reader.begin()
            said = self.reader.read(first.expand(-1, length))
        return said

    @property
    def trials(self) -> float:
        """The number of trials that take as long as a call: the last step counts for all, and each length for all below."""
        N = self.cell.problem.N
        return N if isinstance(self.reader, ByStep) else N / len(self.reader.attentions)

    @torch.inference_mode()
    def first_token(self) -> Tensor:
        """Return what is said after the first token and one more step."""
        first = first_tokens(self.reader)
        self.reader.begin()
        said = self.reader.read(first)
        return self.reader.read(first) if self.cell.problem.N > 1 else said

    def state_bytes(self) -> int:
        """Return the bytes of the states of all layers and sequences, when all N tokens are made."""
        if not isinstance(self.reader, ByStep):
            return self.reader.state_bytes()
        blocks = self.model.layers
        return self.cell.problem.B * sum(b.attention.state_bytes(s) for b, s in zip(blocks, self.full, strict=True))

    def output(self) -> Reading:
        """Return the bytes of all token numbers."""
        return Reading(self.cell.problem.B * self.cell.problem.N * self.inputs[0].element_size(), "B N tokens, int64")

    @property
    def facts(self) -> Facts:
        """What a reader must know about the model."""
        return {"parameters": self.model.size, "layers": len(self.model.layers), "generation": self.reader.way}


def generation(cell: Cell, seed: int) -> Generation:
    """Build the model and its reader. Raises what the method raises."""
    model = build_model(cell, Alphabet.without_data(plan_of(cell), cell.problem.N), seed).eval()
    reader = reader_of(model, cell.problem.B)
    full: list[State] = []
    if isinstance(reader, ByStep):
        # for one sequence: a prompt of the whole batch would need more memory than steps do
        one = ByStep(model, 1)
        with torch.inference_mode():
            one.read(first_tokens(one).expand(-1, max(1, cell.problem.N - 1)))
        full = one.states
    attention, first = model.layers[0].attention, (first_tokens(reader),)
    return Generation(cell, attention, first, model=model, reader=reader, source=generator(cell, seed), full=full)


_PREPARE: dict[Workload, Callable[[Cell, int], Setting]] = {
    Workload.FORWARD: whole,
    Workload.FORWARD_BACKWARD: whole,
    Workload.BACKWARD: whole,
    Workload.PREFILL: decoding.prompt,
    Workload.VERIFY: decoding.last_tokens,
    Workload.DECODE: decoding.last_tokens,
    Workload.DECODE_TOTAL: decoding.sequence,
    Workload.FIDELITY: whole,
    Workload.NUMERICS: whole,
    Workload.TRAIN: updating,
    Workload.GENERATE: generation,
    Workload.MODEL_PREFILL: whole_model,
    Workload.MODEL_DECODE: whole_model,
    Workload.MODEL_TRAIN: whole_model,
}


def prepare(job: Job) -> Setting:
    """Build the method, draw its inputs in its native layout, set what the cell states. Raises what the method raises."""
    return _PREPARE[job.cell.workload](job.sized, job.seed)
