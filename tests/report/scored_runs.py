"""Runs of what is scored and not timed: fidelity of hashing by rounds and bucket size, and numerics of three methods."""

from collections.abc import Mapping

from attnbench.report.findings import Findings
from attnbench.schema import outcome as names
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR, Failed, Measured, Series, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import ReportSpec
from tests.report.conftest import Law, Synthetic

SIZES, ROUNDS = (32, 64), (1, 2, 4)
SHARES = {"softmax.sdpa": 3e-7, "linear.chunked": 1e-7, "fast.forward": 2e-7}


def kept_run() -> Synthetic:
    """Hashing by rounds and bucket size, an exact method, and one that is refused."""
    report = ReportSpec(tables=("summary", "time", "fidelity", "state"), plots=("time", "fidelity"))
    hashing = [Law("lsh.reformer", 1, 1, {"rounds": r, "bucket_size": m}) for m in SIZES for r in ROUNDS]
    laws = [*hashing, Law("softmax.sdpa", 1, 1, tier="library"), Law("linear.full", 1, 1, stop_at=1)]
    return Synthetic(laws, lengths=(512, 1024), causal=(True,), workloads=(Workload.FIDELITY,), report=report)


def kept_findings() -> Findings:
    return Findings.of(*recorded(kept_run()))


def sampled(values: Mapping[str, float]) -> dict[str, Series]:
    return {name: Series(unit="1", values=(value,)) for name, value in values.items()}


def recorded(run: Synthetic) -> tuple[RunInfo, list[Record]]:
    info, costs, records = run.run(), {}, list[Record]()
    for cell in info.cells:
        pairs = int(cell.params.get("rounds", 10**6)) * 2 * int(cell.params.get("bucket_size", 1)) / cell.problem.N
        recall = min(1.0, 1.2 * pairs)
        costs[cell.key] = info.costs[cell.key].model_copy(update={"nominal_flops": 1.0, "exact_flops": recall})
        if cell.method == "linear.full":
            records.append(run.record(cell, Failed(status=Status.UNSUPPORTED, reason="not causal"), phase=Pass.FIDELITY))
            continue
        exact = "Shared-QK attention" if cell.params else "Softmax attention"
        for replicate in range(run.replicates):
            samples = sampled({MASS_RECALL: min(1.0, recall + 0.01 * replicate), OUTPUT_ERROR: 1 - recall / 2})
            measured = Measured(samples=samples, facts={"top_keys": 32, "exact": exact})
            records.append(run.record(cell, measured, replicate, Pass.FIDELITY))
    return info.model_copy(update={"costs": costs}), records


def changed(record: Record, values: dict[str, float], facts: dict[str, Scalar | None] | None = None) -> Record:
    """With other samples and facts; a failure as it is."""
    outcome = record.outcome
    if not isinstance(outcome, Measured):
        return record
    update = {"samples": outcome.samples | sampled(values), "facts": {**outcome.facts, **(facts or {})}}
    return record.model_copy(update={"outcome": outcome.model_copy(update=update)})


def scored(run: Synthetic, cell: Cell, replicate: int) -> Record:
    share = SHARES[cell.method] * (1 + 0.01 * replicate)
    values = {names.ROUNDING: share, names.BATCH_DIFFERENCE: 0.0, names.RUN_DIFFERENCE: 0.0}
    facts: dict[str, Scalar | None] = {}
    if cell.method == "fast.forward":
        facts["not_deterministic"] = "scatter has no such kernel"
    else:
        values |= {names.GRADIENT_ROUNDING: 2 * share, names.DETERMINISTIC_COST: 1.25}
    return run.record(cell, Measured(samples=sampled(values), facts=facts), replicate, Pass.NUMERICS)


def rounded_findings() -> Findings:
    """Three methods, timed and held against their definitions; the last one has no backward."""
    report = ReportSpec(tables=("summary", "time", "numerics"), plots=("time", "numerics"))
    laws, workloads = [Law(name, 1e-3, 1) for name in SHARES], (Workload.FORWARD, Workload.NUMERICS)
    rounded = Synthetic(laws, lengths=(512, 1024), causal=(True,), workloads=workloads, report=report)
    info = rounded.run()
    numerics = [cell for cell in info.cells if cell.workload is Workload.NUMERICS]
    times = [record for record in rounded.records() if record.job.cell.workload is Workload.FORWARD]
    return Findings.of(info, [*times, *(scored(rounded, cell, r) for cell in numerics for r in range(rounded.replicates))])
