"""The clocks on a real GPU."""

import math

import pytest
import torch
import torch.nn.functional as F

from attnbench.measure import devices
from attnbench.measure.clock import ColdClock, GraphClock
from attnbench.measure.loop import Loop

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("mode", ["cold", "graph", "graph_cold", "wall"])
def test_every_clock_gives_positive_finite_seconds(mode: str) -> None:
    a = torch.randn(1024, 1024, device="cuda:0")
    out = torch.empty_like(a)
    clock = devices.clock("cuda:0", mode)
    call = clock.prepare(lambda: torch.mm(a, a, out=out))
    samples = [clock.sample(call, batch) for batch in (1, 1, 3)]
    assert all(0 < s < 10 and math.isfinite(s) for s in samples)


def test_a_copy_that_fits_the_cache_is_not_faster_cold_than_warm() -> None:
    assert ColdClock("cuda:0").cold_ratio >= 1.0


def test_the_first_call_includes_the_work_that_it_only_queued() -> None:
    a = torch.randn(4096, 4096, device="cuda:0", dtype=torch.float32)
    a @ a
    torch.cuda.synchronize()

    def call() -> None:
        for _ in range(200):
            a @ a

    clock = devices.clock("cuda:0", "cold")
    timing = Loop(clock, 1.0).run(call)
    assert timing.first_call >= 0.5 * min(timing.samples)


def test_a_call_that_waits_for_the_gpu_is_flagged_and_one_that_does_not_is_not() -> None:
    a = torch.randn(1024, 1024, device="cuda:0")

    def waits() -> None:
        (a @ a).sum().item()

    for call, has_gaps in ((waits, True), (lambda: a @ a, False)):
        clock = ColdClock("cuda:0")
        prepared = clock.prepare(call)
        clock.sample(prepared, 20)
        assert ("gaps" in clock.flags) is has_gaps


def test_the_clock_of_a_gpu_is_one_that_gpus_have() -> None:
    clock = ColdClock("cuda:0")
    clock.sample(torch.randn(1024, 1024, device="cuda:0").exp, 20)
    assert len(clock.clocks_mhz) == 20
    assert all(150 < each < 4000 for each in clock.clocks_mhz)


def test_a_call_of_a_microsecond_is_not_the_launch_of_its_graph() -> None:
    """A graph's launch takes about 6 µs; a kernel of one block in a graph of many takes less."""
    x = torch.zeros(32, device="cuda:0")
    clock = GraphClock("cuda:0")
    replay = clock.prepare(lambda: x.add_(1))
    assert clock.unrolled > 8
    assert min(clock.sample(replay, 6400) for _ in range(5)) < 5e-6


@pytest.mark.parametrize("mode", ["cold", "graph", "graph_cold"])
def test_forward_and_backward_of_sdpa_can_be_timed(mode: str) -> None:
    q, k, v = (torch.randn(2, 4, 256, 64, device="cuda:0", dtype=torch.float16, requires_grad=True) for _ in range(3))
    g = torch.randn_like(q)

    def call() -> object:
        return torch.autograd.grad(F.scaled_dot_product_attention(q, k, v), (q, k, v), g)

    timing = Loop(devices.clock("cuda:0", mode), 2.0).run(call)
    assert timing.samples
    assert all(0 < s < 1 for s in timing.samples)
