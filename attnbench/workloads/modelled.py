"""Settings of workloads that have a model around the attention."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from attnbench.measure.vector_math import choose_kernels
from attnbench.schema.cell import Cell, Workload
from attnbench.training.alphabet import Alphabet
from attnbench.training.transformer import Transformer
from attnbench.workloads.setting import Setting


@dataclass(kw_only=True)
class Modelled(Setting, ABC):
    """`method` is the attention of the first layer, and `inputs` are token numbers, int64 [B, n]."""

    model: Transformer

    @abstractmethod
    def output_bytes(self) -> int:
        """Of what a call gives, as `output_source` says."""

    @property
    @abstractmethod
    def output_source(self) -> str:
        """In words, what that is."""


def build_model(cell: Cell, alphabet: Alphabet, seed: int) -> Transformer:
    """The model on its device, under what the cell states. Raises what the method raises."""
    if cell.device_kind == "cuda":
        # clocks and events are of the current device
        torch.cuda.set_device(cell.device)
    choose_kernels()
    torch.set_float32_matmul_precision(cell.matmul_precision.value)
    torch.set_grad_enabled(cell.workload is Workload.TRAIN)
    # a method's own draws: rotations, projections, codes
    torch.manual_seed(seed + 1)
    return Transformer(cell, alphabet, seed)
