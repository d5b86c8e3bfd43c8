"""A run that every kind of figure can be drawn from: times, memory, decoding, fidelity, costs and a roof; fixed numbers."""

import random
from collections.abc import Callable

import pytest

from attnbench.report.findings import Findings
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR, Measured, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.training import Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.scored_runs import sampled

Everything = Callable[..., Findings]
Suited = Callable[..., Findings]
_MADE: dict[str, Findings] = {}
"""Runs that were asked for before: they are never changed, and take a while to make."""
_PLAIN = (Workload.FORWARD, Workload.FIDELITY)
_COPY = Training(task=Task.COPY, updates=2000)
KINDS = (
    *("scaling", "memory", "pareto", "roofline", "crossover", "decode", "ratio", "fidelity", "curves", "drawings"),
    "memory_against_time",
)
"""What can be drawn of these runs."""
_IMAGES = Training(task=Task.PIXELS, updates=2000, drawings=6)
_OWN: dict[str, dict[str, object]] = {
    "decode": {"workloads": (Workload.DECODE,)},
    "curves": {"workloads": (Workload.TRAIN,), "lengths": (64, 128), "causal": (True,), "trainings": (_COPY,)},
    "memory_against_time": {"lengths": (512, 1024), "heads": (8, 16), "causal": (True,)},
    "drawings": {"workloads": (Workload.TRAIN,), "lengths": (64,), "causal": (True,), "trainings": (_IMAGES,)},
}
"""Fields of the run by what it shows."""
_ERRORS = {"softmax": 3e-7, "linear": 0.52, "lsh": 0.31, "sparse": 0.18}


def cost(cell: Cell, info: RunInfo) -> Cost:
    """Quadratic for softmax, linear in N for the others."""
    p = cell.problem
    rows = 1 if cell.workload is Workload.DECODE else p.N
    width = p.N if cell.method.startswith("softmax") else 192
    # few enough to stay under the synthetic roof, more or less
    flops = 0.2 * p.B * p.H * rows * width * p.D
    known = {"nominal_flops": 0.2 * p.B * p.H * rows * p.N * p.D, "exact_flops": flops, "executed_flops": flops}
    return info.costs[cell.key].model_copy(update=known)


def fidelity(run: Synthetic, cell: Cell, replicate: int) -> Record:
    noise = random.Random(f"{cell.label}/{cell.problem.N}/{replicate}").uniform(0.97, 1.03)
    rounds = float(cell.params.get("rounds", 1))
    error = _ERRORS[cell.method.partition(".")[0]] * noise / rounds**0.5
    values = {OUTPUT_ERROR: error, MASS_RECALL: max(0.0, min(1.0, 1 - 0.9 * error))}
    measured = Measured(samples=sampled(values), facts={"top_keys": 32, "exact": "Softmax attention"})
    return run.record(cell, measured, replicate, Pass.FIDELITY)


def recorded(run: Synthetic) -> tuple[RunInfo, list[Record]]:
    """Return a run with costs, and with fidelity of all methods but those that fail from the shortest length on."""
    info, failing = run.run(), {law.name: law for law in run.laws if law.stop_at is not None and law.stop_at <= run.lengths[0]}
    info = info.model_copy(update={"costs": {cell.key: cost(cell, info) for cell in info.cells if cell.key in info.costs}})
    records = [record for record in run.records() if record.job.cell.workload is not Workload.FIDELITY]
    for cell in info.cells:
        if cell.workload is Workload.FIDELITY:
            failed = run.failed(failing[cell.method], cell) if cell.method in failing else None
            scored = [fidelity(run, cell, replicate) for replicate in range(run.replicates)]
            records += [run.record(cell, failed, phase=Pass.FIDELITY)] if failed else scored
    return info, records


@pytest.fixture
def everything() -> Everything:
    """Findings of the run; what is named replaces a field of the synthetic run."""
    laws = (
        Law("softmax.sdpa", 3e-3, 1.95, tier="library", state=2**22, stop_at=2**13, reason="memory limit of 17.2 GB reached"),
        Law("softmax.naive", 9e-3, 2.0, state=2**22, stop_at=2**12, reason="memory limit of 17.2 GB reached"),
        Law("linear.chunked", 6e-3, 1.0, {"chunk": 64}, state=2**17, state_is_fixed=True),
        Law("lsh.reformer", 15e-3, 1.08, {"rounds": 1}, state=2**20),
        Law("lsh.reformer", 25e-3, 1.08, {"rounds": 4}, state=2**20),
        Law("sparse.strided", 5e-3, 1.5, state=2**19),
        Law("sparse.wrong", 2e-3, 1.5, stop_at=1, status=Status.INCORRECT, reason="its check: o differs by 0.3"),
    )

    def _everything(**fields: object) -> Findings:
        known: dict[str, object] = {"lengths": (512, 1024, 2048, 4096, 8192), "causal": (True,), "replicates": 5}
        known["workloads"] = (Workload.FORWARD, Workload.DECODE, Workload.FIDELITY)
        asked = str({**known, **fields})
        if asked not in _MADE:
            _MADE[asked] = Findings.of(*recorded(Synthetic(laws, **{**known, **fields})))  # type: ignore[arg-type]
        return _MADE[asked]

    return _everything


@pytest.fixture
def suited(everything: Everything) -> Suited:
    """Findings of a run that has what a kind shows; what is named replaces a field, but for those that the kind needs."""

    def _suited(kind: str, **fields: object) -> Findings:
        return everything(**{"workloads": _PLAIN, **fields, **_OWN.get(kind, {})})

    return _suited
