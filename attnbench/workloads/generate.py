"""Generation: B sequences of N tokens, by a model whose weights are as they were drawn."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnbench.api import State
from attnbench.schema.cell import Cell, ClockMode, Workload
from attnbench.training.alphabet import Alphabet
from attnbench.training.generation import first_tokens, write
from attnbench.training.reading import Anew, ByStep, reader_of
from attnbench.training.transformer import plan_of
from attnbench.workloads.decoding import repeated
from attnbench.workloads.modelled import Modelled, build_model


@dataclass(kw_only=True)
class Generation(Modelled):
    """A call makes all tokens of all sequences, from nothing; `inputs` are the tokens that stand before them."""

    reader: ByStep | Anew
    source: torch.Generator
    full: list[State]
    """Of each layer, the state of one sequence after N - 1 tokens; empty where none is kept."""

    def forward(self) -> Tensor:
        """The tokens, int64 [B, N]."""
        return write(self.reader, self.cell.problem.N, generator=self.source)

    @torch.inference_mode()
    def trial(self) -> Tensor:
        """What takes the most memory, and says the time of it all: what is said after the last token, [B, outputs].

        Of steps the last one; of whole prefixes one of each length, for blocks of one size are of no use to the next.
        """
        N, first = self.cell.problem.N, first_tokens(self.reader)
        if isinstance(self.reader, ByStep):
            self.reader.stand([repeated(state, self.cell.problem.B) for state in self.full], N - 1)
            said = self.reader.read(first)
            # or the next trial would hold its states and these
            self.reader.begin()
            return said
        for length in self.reader.lengths:
            self.reader.begin()
            said = self.reader.read(first.expand(-1, length))
        return said

    @property
    def trials(self) -> float:
        """How many of them a call takes the time of: the last step stands for all, and each length for all up to it."""
        lengths = [] if isinstance(self.reader, ByStep) else self.reader.lengths
        return self.cell.problem.N / max(1, len(lengths))

    @torch.inference_mode()
    def first_token(self) -> Tensor:
        """What is said after the first token, and one step on."""
        first = first_tokens(self.reader)
        self.reader.begin()
        said = self.reader.read(first)
        return self.reader.read(first) if self.cell.problem.N > 1 else said

    def state_bytes(self) -> int:
        """Of all layers and sequences, when all N tokens are made."""
        if not isinstance(self.reader, ByStep):
            return self.reader.state_bytes()
        blocks = self.model.layers
        return self.cell.problem.B * sum(b.attention.state_bytes(s) for b, s in zip(blocks, self.full, strict=True))

    def output_bytes(self) -> int:
        """Of all tokens."""
        return self.cell.problem.B * self.cell.problem.N * self.inputs[0].element_size()

    @property
    def output_source(self) -> str:
        """Numbers of tokens."""
        return "B N tokens, int64"

    @property
    def facts(self) -> dict[str, int | str]:
        """What a reader must know of the model."""
        return {"parameters": self.model.size, "layers": len(self.model.layers), "generation": self.reader.way}


def generation(cell: Cell, seed: int) -> Generation:
    """The model, and how it reads. Raises what the method raises."""
    model = build_model(cell, Alphabet.without_data(plan_of(cell), cell.problem.N), seed).eval()
    reader = reader_of(model, cell.problem.B)
    return Generation(
        cell,
        model.layers[0].attention,
        (first_tokens(reader),),
        model=model,
        reader=reader,
        source=torch.Generator(device=cell.device).manual_seed(seed),
        full=_full_states(reader) if isinstance(reader, ByStep) else [],
    )


@torch.inference_mode()
def _full_states(reader: ByStep) -> list[State]:
    """Of one sequence: a prompt of the whole batch would need more memory than steps do."""
    one, N = ByStep(reader.model, 1), reader.model.cell.problem.N
    one.read(first_tokens(one).expand(-1, max(1, N - 1)))
    return one.states


def why_not(cell: Cell) -> str | None:
    """Why sequences of this cell cannot be made, or None: also of every cell that asks for something else."""
    if cell.workload is not Workload.GENERATE:
        return None
    if not cell.problem.causal:
        return "sequences are made token by token, which is causal; set causal: true"
    if cell.clock is ClockMode.GRAPH:
        return "tokens are drawn on the way, which no CUDA graph can capture; use another clock"
    return "sequences are made without padding" if cell.problem.padding else None
