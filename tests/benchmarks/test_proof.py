"""What a proof adds to a replicate: its share of the seconds that the whole job takes, side by side in one run."""

import statistics
import time

import pytest

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits
from attnbench.schema.outcome import Measured
from attnbench.schema.problem import Problem
from attnbench.worker.isolate import Isolation

METHODS = (
    "softmax.sdpa",
    "linear.chunked",
    "sparse.strided",
    "lsh.reformer",
    "vq.blockwise",
    "gated.gla",
    "delta.gated_deltanet",
)
SHAPES = ((Workload.FORWARD, 1024), (Workload.FORWARD, 4096), (Workload.FORWARD_BACKWARD, 2048), (Workload.DECODE, 4096))


@pytest.mark.slow
@pytest.mark.alone
def test_a_proof_takes_a_tenth_of_a_replicate_or_says_what_it_left_out() -> None:
    shares = []
    with Isolation() as worker:
        for method in METHODS:
            for workload, N in SHAPES:
                cell = Cell(method=method, problem=Problem(N=N, H=8, D=64, causal=True), workload=workload)
                begin = time.perf_counter()
                answer, _ = worker.ask(Job(cell=cell, limits=Limits(seconds=3)), 120)
                whole = time.perf_counter() - begin
                if not isinstance(answer, Measured):
                    continue
                proof = answer.facts["proof_seconds"]
                assert isinstance(proof, float)
                shares.append(proof / whole)
                left_out = answer.facts.get("not_proven", "nothing")
                print(
                    f"\n{method}, {workload.value}, N = {N}: {100 * shares[-1]:.1f} % of {whole:.2f} s; left out: {left_out}",
                    end="",
                )
    print(f"\nmedian {100 * statistics.median(shares):.1f} %, most {100 * max(shares):.1f} %")
    assert statistics.median(shares) <= 0.1
