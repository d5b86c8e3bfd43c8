"""What the tests of models share: small cells, a task that is quick to learn, and torch's global state put back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.problem import Problem
from attnbench.schema.training import Training
from attnbench.training.tasks import Alphabet, Batch
from attnbench.training.transformer import Transformer

SYMBOLS = 6
TEXT = Alphabet(SYMBOLS + 1, start=SYMBOLS)
PIXELS = Alphabet(6, levels=5, start=5)
Make = Callable[..., Transformer]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def following(B: int, source: torch.Generator, N: int = 16) -> Batch:
    """Each token is the one before it, plus one; the first is drawn."""
    targets = (torch.randint(SYMBOLS, (B, 1), generator=source) + torch.arange(N)) % SYMBOLS
    tokens = torch.cat([torch.full((B, 1), SYMBOLS), targets[:, :-1]], dim=1)
    return Batch(tokens, targets, torch.ones(B, N, dtype=torch.bool))


def small_cell(method: str = "softmax.naive", *, params: dict[str, Any] | None = None, **fields: Any) -> Cell:
    """B = 4, H = 2, N = 16, D = 8, two layers, 12 updates."""
    known = Training.model_fields.keys()
    shape = {"B": 4, "H": 2, "N": 16, "D": 8, "causal": True, **{k: v for k, v in fields.items() if k not in known}}
    plan = {"task": "copy", "layers": 2, "feedforward": 2, "updates": 12, "evaluations": 3, "held_out": 10}
    plan |= {name: value for name, value in fields.items() if name in known}
    training = Training.model_validate(plan)
    return Cell(method=method, params=params or {}, problem=Problem(**shape), workload=Workload.TRAIN, training=training)


@pytest.fixture(autouse=True)
def _prepared(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "attentions"))
    torch.manual_seed(0)


@pytest.fixture
def model_of() -> Make:
    def make(method: str = "softmax.naive", *, alphabet: Alphabet = TEXT, seed: int = 1, **fields: Any) -> Transformer:
        torch.manual_seed(seed + 1)
        return Transformer(small_cell(method, **fields), alphabet, seed)

    return make
