"""What isolation costs, and that it does not change what is measured: forked and fresh processes side by side.

`pytest tests/benchmarks/test_overhead.py -m slow -n 0 --benchmark-enable`.
"""

import math
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from attnbench.analyze.statistics import t_quantile
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Limits
from attnbench.schema.outcome import Measured
from attnbench.schema.problem import Problem
from attnbench.worker.isolate import Isolation

JOB = Job(cell=Cell(method="softmax.sdpa", problem=Problem(N=512, H=4)), limits=Limits(seconds=0.6), warmup=20)


@pytest.fixture
def both(plugins: Path) -> Iterator[dict[str, Isolation]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(Isolation(fresh=name == "fresh")) for name in ("forked", "fresh")}


def replicate(worker: Isolation) -> tuple[float, float]:
    """Median seconds per call, and the seconds around the measuring loop."""
    begin = time.perf_counter()
    answer, _ = worker.ask(JOB, 60)
    whole = time.perf_counter() - begin
    assert isinstance(answer, Measured)
    inside = answer.facts["loop_seconds"]
    assert isinstance(inside, float)
    return statistics.median(answer.samples["time"].values), whole - inside


@pytest.mark.slow
@pytest.mark.alone
def test_forked_replicates_cost_a_fraction_of_fresh_ones_and_measure_the_same(
    both: dict[str, Isolation],
) -> None:
    for worker in both.values():
        replicate(worker)  # starts the servers
    pairs = [{name: replicate(worker) for name, worker in both.items()} for _ in range(12)]
    overhead = {name: statistics.median(pair[name][1] for pair in pairs) for name in both}
    logs = [math.log(pair["forked"][0] / pair["fresh"][0]) for pair in pairs]
    mean, half = statistics.mean(logs), t_quantile(len(logs) - 1) * statistics.stdev(logs) / len(logs) ** 0.5
    spread = {name: statistics.stdev(pair[name][0] for pair in pairs) for name in both}
    print(f"\noverhead per replicate: forked {overhead['forked']:.3f} s, fresh {overhead['fresh']:.3f} s (medians of 12)")
    print(f"time per call, forked / fresh: {1 + mean:.3f} [{1 + mean - half:.3f}, {1 + mean + half:.3f}]; spread {spread}")
    assert overhead["forked"] < overhead["fresh"] / 4
    # equal within what this machine can tell, and that is not much worse than a tenth
    assert abs(mean) < max(half, 0.05)


@pytest.mark.slow
def test_the_cost_of_a_forked_replicate(benchmark: BenchmarkFixture, plugins: Path) -> None:
    quick = JOB.model_copy(update={"limits": Limits(seconds=0.02), "warmup": 1})
    with Isolation() as worker:
        worker.ask(quick, 60)
        answer, _ = benchmark.pedantic(worker.ask, (quick, 60), rounds=10)
    assert isinstance(answer, Measured)
