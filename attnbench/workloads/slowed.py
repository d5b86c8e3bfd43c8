"""A slow-down of known size, made on purpose: what `attnbench selfcheck --inject` has to find."""

import inspect
import time
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, Causality, Cell, Cost, Problem, Scalar, Tier, Workload


class Slowed(Attention):
    """Another method, and a wait for a share of the time that it just took.

    The wait keeps the calling thread busy, within the call that is timed: the call takes 1 + `share` of its own time,
    to about a microsecond, whatever that time was. A share of 0 does not wait: the other side of the comparison, for
    inputs come in the plain layout and not in the one that the method inside may want.
    """

    paper = "that of the method inside"
    tier = Tier.EAGER

    def __init__(self, problem: Problem, method: str, share: float) -> None:
        super().__init__(problem)
        self.share = share
        self.inner = registry.build(method, problem)

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """What the method inside refuses, and where a wait in the forward would not slow the call by that share."""
        name = _inner(cell.params)
        method = registry.load(name)
        if absent := registry.missing(method):
            return registry.pip_line(name, absent)
        if cell.device_kind != "cpu":
            return "a wait of the host slows no GPU"
        if cell.workload is not Workload.FORWARD:
            return "it waits in the forward only"
        if any(_is_own(method, what) for what in ("projections", "admit", "inputs", "choose")):
            return f"{name} draws its inputs, or chooses among them, in its own way"
        if cell.problem.causal and method.causality is not Causality.FULL:
            return f"{name} sees later keys"
        return method.refusal(cell.model_copy(update={"method": name, "params": {}}))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """That of the method inside: a wait is no work."""
        return registry.load(_inner(params)).cost(problem, {}, workload)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The method's output, late."""
        start = time.perf_counter()
        o: Tensor = self.inner(q, k, v)
        end = time.perf_counter()
        until = end + self.share * (end - start)
        while time.perf_counter() < until:
            pass
        return o

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The method's own."""
        return self.inner.reference(q, k, v)

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:
        """That of the method inside."""
        return registry.load(_inner(params)).span(problem, {})

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The method's own."""
        return self.inner.rows(head, at, q, k, v)

    @contextmanager
    def observe(self) -> Iterator[dict[str, Scalar]]:
        """What the method inside notes of its kernel."""
        with self.inner.observe() as noted:
            yield noted


def _inner(params: dict[str, Scalar]) -> str:
    if "method" not in params or "share" not in params:
        raise TypeError("Slowed takes method and share")
    return str(params["method"])


def _is_own(method: type[Attention], name: str) -> bool:
    """Whether a method does it in another way than the API does by default."""
    return inspect.getattr_static(method, name) is not inspect.getattr_static(Attention, name)
