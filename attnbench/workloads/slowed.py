"""A slow-down of known size, made on purpose, which `attnbench selfcheck --inject` has to find."""

import inspect
import time
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, Causality, Cell, Cost, Problem, Scalar, Tier, Workload

_DRAWING = ("projections", "admit", "inputs", "choose")


class Slowed(Attention):
    """Another method, followed by a wait for a share of the time that it just took.

    The wait keeps the calling thread busy within the timed call, which so takes 1 + `share` of its own time, to about a
    microsecond. A share of 0 does not wait: this is the other side of the comparison, which has to take its inputs in the
    same plain layout, whatever the method inside would want.
    """

    paper = "the paper of the method inside"
    tier = Tier.EAGER

    def __init__(self, problem: Problem, method: str, share: float) -> None:
        super().__init__(problem)
        self.share = share
        self.inner = registry.build(method, problem)

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse what the method inside refuses, and cells in which a wait would not slow the call by that share."""
        name = _inner(cell.params)
        method = registry.load(name)
        if absent := registry.missing(method):
            return registry.pip_line(name, absent)
        if cell.device_kind != "cpu":
            return "a wait of the host slows no GPU"
        if cell.workload is not Workload.FORWARD:
            return "it waits in the forward only"
        if any(inspect.getattr_static(method, what) is not inspect.getattr_static(Attention, what) for what in _DRAWING):
            return f"{name} draws its inputs, or chooses among them, in its own way"
        if cell.problem.causal and method.causality is not Causality.FULL:
            return f"{name} sees later keys"
        return method.refusal(cell.model_copy(update={"method": name, "params": {}}))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost | None:
        """Return the cost of the method inside: a wait is no work."""
        return registry.load(_inner(params)).cost(problem, {}, workload)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the method's output, late."""
        start = time.perf_counter()
        o: Tensor = self.inner(q, k, v)
        end = time.perf_counter()
        until = end + self.share * (end - start)
        while time.perf_counter() < until:
            pass
        return o

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the method's reference."""
        return self.inner.reference(q, k, v)

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:
        """Return the span of the method inside."""
        return registry.load(_inner(params)).span(problem, {})

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the method's rows."""
        return self.inner.rows(head, at, q, k, v)

    @contextmanager
    def observe(self) -> Iterator[dict[str, Scalar]]:
        """Record what the method inside notes about its kernel."""
        with self.inner.observe() as noted:
            yield noted


def _inner(params: dict[str, Scalar]) -> str:
    if "method" not in params or "share" not in params:
        raise TypeError("Slowed takes method and share")
    return str(params["method"])
