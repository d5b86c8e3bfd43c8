"""Linformers that say they are causal, since they hide a triangle over the projected keys: what the check must catch."""

from torch import Tensor, nn

from attnbench.api import Attention, Causality, Cost, Problem, Scalar, Workload, io_bytes, nominal_flops


class _SaysItIsCausal(Attention):
    paper = "arXiv:2006.04768"
    causality = Causality.FULL

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        nominal, moved = nominal_flops(problem, workload), io_bytes(problem, workload)
        return Cost(nominal_flops=nominal, exact_flops=0, executed_flops=0, traffic_bytes=moved)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # of its own, so that causality alone can be what is wrong
        o: Tensor = self(q, k, v)
        return o


class Triangle(_SaysItIsCausal):
    """Query i sees the projected keys 0 … i, each a mixture of all tokens."""

    def __init__(self, problem: Problem, k: int = 16) -> None:
        import torch

        super().__init__(problem)
        self.E = nn.Parameter(torch.randn(k, problem.N) / k**0.5)
        self.register_buffer("seen", torch.ones(problem.N, k, dtype=torch.bool).tril())

    seen: Tensor

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ (self.E @ k).mT / q.shape[-1] ** 0.5
        o: Tensor = scores.masked_fill(~self.seen, -1e10).softmax(-1) @ (self.E @ v)
        return o


class Package(_SaysItIsCausal):
    """linformer-pytorch with its own flag."""

    requires = ("linformer-pytorch>=0.19.3", "matplotlib")

    def __init__(self, problem: Problem, k: int = 16) -> None:
        from importlib import import_module

        super().__init__(problem)
        family = "attnbench_impls.linformer"
        options = import_module(f"{family}.options").Options(k)
        self.heads: nn.ModuleList = import_module(f"{family}.tatp22").heads_of(problem, options, causal=True)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        import torch

        return torch.stack([head(q[:, h], k[:, h], v[:, h]) for h, head in enumerate(self.heads)], dim=1)
