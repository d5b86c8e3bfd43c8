"""What isolation costs, and that it does not change what is measured, and what a proof adds to a replicate.

`pytest tests/benchmarks/test_overhead.py -m slow -n 0 -s`.
"""

import math
import statistics
import time
from itertools import product

import pytest

from attnbench.analyze.statistics import t_quantile
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Answer, Job, Limits
from attnbench.schema.outcome import Measured
from attnbench.schema.problem import Problem
from attnbench.worker.isolate import Isolation

JOB = Job(cell=Cell(method="softmax.sdpa", problem=Problem(N=512, H=4)), limits=Limits(seconds=0.6), warmup=20)
METHODS = [
    "softmax.sdpa",
    "linear.chunked",
    "sparse.strided",
    "lsh.reformer",
    "vq.blockwise",
    "gated.gla",
    "delta.gated_deltanet",
]
SHAPES = ((Workload.FORWARD, 1024), (Workload.FORWARD, 4096), (Workload.FORWARD_BACKWARD, 2048), (Workload.DECODE, 4096))


def asked(worker: Isolation, job: Job) -> tuple[Answer, float]:
    """The answer, and the seconds that it took."""
    begin = time.perf_counter()
    answer, _ = worker.ask(job, 120)
    return answer, time.perf_counter() - begin


def replicate(worker: Isolation) -> tuple[float, float]:
    """Median seconds per call, and the seconds around the measuring loop."""
    answer, whole = asked(worker, JOB)
    assert isinstance(answer, Measured)
    inside = answer.facts["loop_seconds"]
    assert isinstance(inside, float)
    return statistics.median(answer.samples["time"].values), whole - inside


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.usefixtures("plugins")
def test_forked_replicates_cost_a_fraction_of_fresh_ones_and_measure_the_same() -> None:
    with Isolation() as forked, Isolation(fresh=True) as fresh:
        both = {"forked": forked, "fresh": fresh}
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
@pytest.mark.alone
def test_a_proof_takes_a_tenth_of_a_replicate_or_says_what_it_left_out() -> None:
    shares = []
    with Isolation() as worker:
        for method, (workload, N) in product(METHODS, SHAPES):
            cell = Cell(method=method, problem=Problem(N=N, H=8, D=64, causal=True), workload=workload)
            answer, whole = asked(worker, Job(cell=cell, limits=Limits(seconds=3)))
            if not isinstance(answer, Measured):
                continue
            proof = answer.facts["proof_seconds"]
            assert isinstance(proof, float)
            shares.append(proof / whole)
            left_out = answer.facts.get("not_proven", "nothing")
            print(f"{method}, {workload.value}, N = {N}: {100 * shares[-1]:.1f} % of {whole:.2f} s; left out: {left_out}")
    print(f"median {100 * statistics.median(shares):.1f} %, most {100 * max(shares):.1f} %")
    assert statistics.median(shares) <= 0.1
