"""A run that somebody sent, taken at its word or not: what is in its folder, held against what it says of itself."""

import statistics
from collections import Counter
from collections.abc import Iterator

from attnbench.analyze.cells import summarize
from attnbench.analyze.points import lacks
from attnbench.analyze.statistics import ENOUGH
from attnbench.library.runs import RunLike, read
from attnbench.measure import environment
from attnbench.report.text.numbers import percent
from attnbench.schema.errand import Pass, main_pass
from attnbench.schema.errors import UsageError
from attnbench.schema.outcome import Measured
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.units import counted
from attnbench.session.lanes import Shard
from attnbench.session.machine import Finding
from attnbench.suite.expand import Bundles
from attnbench.suite.load import load, shipped

_NOISY, _OFTEN = 0.10, 0.25
"""A difference of so much between processes of one call hides most of what people look for; and a share of all replicates."""


def verify(run: RunLike) -> list[Finding]:
    """Examine a run: its format, its suite, its cells, checks, replicates, noise and conditions; `ok` False is what is wrong.

    It says whether a run is whole and agrees with itself. Who wants to forge one can. Raises StoreError where it is none.
    """
    folder, refused = read(run).folder, list[str]()
    info, records = folder.info(), list(folder.read(refused.append))
    return [_format(info, records, refused), _suite(info), _cells(info), *_results(info, records), *_conditions(info, records)]


def _format(info: RunInfo, records: list[Record], refused: list[str]) -> Finding:
    cells, environments = {cell.key for cell in info.cells}, {info.environment_digest, *info.elsewhere}
    strange = sum(record.job.cell.key not in cells and record.job.phase is not Pass.CHECK for record in records)
    unknown = sum(record.environment not in environments for record in records)
    false = [digest for digest in environments if environment.digest(info.on(digest).environment) != digest]
    wrong = [f"{counted(len(refused), 'line')} without a record ({refused[0]})"] if refused else []
    wrong += [f"{counted(strange, 'record')} of cells that were not planned"] if strange else []
    wrong += [f"{counted(unknown, 'record')} taken in another environment"] if unknown else []
    wrong += ["the environment is not the one that its digest stands for"] if false else []
    there = "one environment" if len(environments) == 1 else f"{len(environments)} environments that run.json describes"
    return Finding("format", "; ".join(wrong) or f"{counted(len(records), 'record')} of this run, of {there}", not wrong)


def _suite(info: RunInfo) -> Finding:
    suite = info.suite
    ships = shipped().get(suite.name)
    if ships is None:
        return Finding("suite", f"{suite.name} is none that ships; its digest is {suite.digest}")
    ours = load(ships).suite.resolved(suite.device)
    if ours.digest == suite.digest:
        return Finding("suite", f"{suite.name} as it ships, digest {suite.digest}", True)
    return Finding("suite", f"not the {suite.name} that ships (digest {suite.digest}; here {ours.digest})", False)


def _cells(info: RunInfo) -> Finding:
    # all shares together may be of more cells than one run may have
    bundles = Bundles(info.suite)
    numbers = Shard.read(info.shard).numbers(info.suite) if info.shard else range(len(bundles))
    try:
        planned, recorded = {cell.key for cell in bundles.cells(numbers)}, {cell.key for cell in info.cells}
    except UsageError as error:
        return Finding("cells", f"those that were planned cannot be told here: {error}")
    whole = f"shard {info.shard} of the suite" if info.shard else "the suite"
    if planned == recorded:
        return Finding("cells", f"all {len(planned):,} that {whole} has", True)
    words = f"{counted(len(planned - recorded), 'cell')} of {whole} missing, {len(recorded - planned):,} that it does not have"
    return Finding("cells", words, False)


def _results(info: RunInfo, records: list[Record]) -> Iterator[Finding]:
    cells = summarize(info.cells, records)
    lacking = lacks(info, records)
    statuses = Counter(cell.status for cell in cells)
    yield Finding("complete", "; ".join(lacking) or ", ".join(f"{n:,} {status}" for status, n in statuses.items()), not lacking)
    passed = {r.job.cell.method for r in records if r.job.phase is Pass.CHECK and r.ok}
    failed = {r.job.cell.method for r in records if r.job.phase is Pass.CHECK and r.failed}
    timed = {cell.cell.method for cell in cells if cell.ok and cell.cell.workload.is_timed and not cell.cell.workload.has_model}
    if not timed:
        yield Finding("checks", "none are made where no attention is timed by itself")
    elif unchecked := sorted(timed - passed):
        yield Finding("checks", f"measured without a check that was passed: {', '.join(unchecked)}", False)
    else:
        words = f"passed by each method that was timed ({len(timed)})"
        yield Finding("checks", words + (f"; failed by {', '.join(sorted(failed))}" if failed else ""), True)
    counts = [cell.replicates for cell in cells if cell.ok]
    if not counts:
        # a share of a suite may have no cell
        yield Finding("replicates", "no cell gave numbers", False if cells else None)
        return
    few = f"; from {ENOUGH} on there are intervals" if min(counts) < ENOUGH else ""
    yield Finding("replicates", f"{min(counts)} of each cell{few}", min(counts) >= ENOUGH or None)
    spreads = [
        statistics.stdev(cell.medians.values()) / statistics.fmean(cell.medians.values())
        for cell in cells
        if cell.ok and len(cell.medians) > 1 and cell.cell.workload.is_timed
    ]
    if spreads:
        middle = statistics.median(spreads)
        words = f"processes of one and the same call differ by {percent(middle)} (standard deviation, the median of all cells)"
        yield Finding("noise", words, middle <= _NOISY or None)


def _conditions(info: RunInfo, records: list[Record]) -> Iterator[Finding]:
    # flags of checks and memory passes say nothing of the numbers that are compared
    timed = [record for record in records if record.job.phase is main_pass(record.job.cell)]
    measured = [record.outcome for record in timed if isinstance(record.outcome, Measured)]
    flags = Counter(flag for outcome in measured for flag in outcome.flags)
    often = {flag: n / len(measured) for flag, n in flags.items() if n > _OFTEN * len(measured)}
    words = ", ".join(f"{flag} {percent(share)}" for flag, share in often.items())
    yield Finding(
        "conditions", f"of all measurements: {words}" if words else "no warning stands at many measurements", not words or None
    )
    commit = str(info.git.get("commit") or "")[:12]
    dirty = ", with changes that were not committed" if info.git.get("dirty") else ""
    by = f"torch {info.environment.get('torch', '?')}{f', commit {commit}{dirty}' if commit else ''}"
    machines = "; ".join(dict.fromkeys(info.on(digest).machine for digest in (info.environment_digest, *info.elsewhere)))
    yield Finding("made by", f"{by}, on {machines}")
