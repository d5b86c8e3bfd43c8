"""What stands below every table and beside every plot: what n and the ranges are, and where and how it was measured."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.main_counter import STATE
from attnbench.analyze.roofline import roof_share
from attnbench.analyze.statistics import ENOUGH
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line, shorten
from attnbench.report.text.statuses import reasons
from attnbench.schema.cell import Batch
from attnbench.schema.errand import FIT_SHARE
from attnbench.schema.units import length

_MACHINE = (
    ("gpu", "{}"),
    ("processor", "{}"),
    ("cores", "{} cores"),
    ("memory_gib", "{} GiB memory"),
    ("threads", "{} threads"),
    ("torch", "torch {}"),
    ("cuda", "CUDA {}"),
    ("python", "Python {}"),
    ("system", "{}"),
)
_BOUNDS = {"oom_host": "memory", "oom_device": "memory", "budget": "time", "timeout": "time"}
_NOISE = re.compile(r"\((?:R|TM|C)\)|[®™]|\bCPU\b|\bProcessor\b|@.*", re.IGNORECASE)
_SHORT = 40
"""Letters of a machine's name within a sentence."""
FIRST_LOOK = f"First look: fewer than {ENOUGH} replicates; small differences cannot be told from chance."


def notes(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    """Below a table of times: the count and its meaning, failures with reasons, warnings, the conditions, the machine."""
    return [*replication(summaries), *reasons(summaries), *conditions(findings, summaries)]


def conditions(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    """Of times: warnings, backends, shapes and settings, the machine."""
    found = [*warnings(findings, summaries), *backends(findings, summaries), *batches(findings, summaries)]
    return [*found, f"{shapes(summaries)}; {how(summaries)}.", machine(findings)]


def memory_conditions(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    """Of memory, which has neither a clock nor the allocator policy of the timings."""
    flags = _flags(flag for s in summaries if s.ok for flag in s.memory.flags)
    return [*flags, *backends(findings, summaries), f"{shapes(summaries)}.", machine(findings)]


def memory_notes(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    """Which counter, by which source, why not the usual one, and why it is missing where it is."""
    counter = findings.counter
    if counter is None:
        missing = dict.fromkeys(one_line(s.memory.reason) for s in summaries if s.ok and s.memory.reason)
        return [f"Memory: no counter was read{''.join(f'; {reason}' for reason in missing)}."]
    n = _span([s.memory.replicates for s in summaries if counter.per_sample(s) is not None] or [0])
    lines = [
        f"Memory: {counter.name} ({one_line(counter.source)}), beyond what lived before the call; "
        f"n = {n} a cell, in processes of their own{_memory_allocator(findings)}, never timed."
    ]
    missing = dict.fromkeys(one_line(counter.why_not(s)) for s in summaries if s.ok and counter.why_not(s))
    return [*lines, *([f"{counter.note}."] if counter.note else []), *(f"Memory n/a: {reason}." for reason in missing)]


def state_notes(summaries: Sequence[CellSummary]) -> list[str]:
    """What a state is, and why it is missing where it is."""
    missing = dict.fromkeys(one_line(STATE.why_not(s)) for s in summaries if s.ok and STATE.why_not(s))
    about = "State: what a method keeps between tokens, with room for all N, by its own count; exact."
    return [about, *(f"State n/a: {reason}." for reason in missing)]


def replication(summaries: Sequence[CellSummary]) -> list[str]:
    """How many replicates and samples, and what low and high mean; nothing where nothing was measured."""
    measured = [s for s in summaries if s.ok]
    if not measured:
        return ["No cell gave a time."]
    n = _span([s.replicates for s in measured])
    samples, outliers = sum(s.samples for s in measured), sum(s.outliers for s in measured)
    few = [s for s in measured if s.replicates < ENOUGH]
    lines = [
        f"n = {n} replicates a cell, each in its own process; median of the replicate medians. "
        f"{samples} samples in all; outliers by Tukey's rule, counted and kept: {outliers}.",
        _meaning(len(few), len(measured)),
    ]
    return [*lines, FIRST_LOOK] if few else lines


def _meaning(few: int, measured: int) -> str:
    band = f"(-a +b%): smallest and largest replicate against the median; a band, no interval, below {ENOUGH} replicates."
    interval = "±a%: 95 % t interval of the mean logarithm of the replicate medians, back-transformed; its farther end."
    return " ".join(text for text, used in ((interval, few < measured), (band, few > 0)) if used)


def warnings(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    """Flags with the number of cells that carry them, and times that no machine of this roof can reach."""
    lines = _flags(flag for s in summaries if s.ok for flag in (*s.flags, *s.memory.flags))
    shares = [(s, share) for s in summaries if (share := roof_share(s, findings.run)) and share.warning]
    if any(share.in_cache for _, share in shares):
        lines.append(
            "Above the roof where what a call touches stayed in cache: the roof's copy does not; see `warning` in table.csv."
        )
    if impossible := [s for s, share in shares if not share.in_cache]:
        cells = ", ".join(f"{findings.names[s.cell.label]} ({_where(s)})" for s in impossible[:3])
        more = f" and {len(impossible) - 3} more" if len(impossible) > 3 else ""
        lines.append(f"Warning: {cells}{more} took less time than the roof allows; see `warning` in table.csv.")
    return lines


def _where(summary: CellSummary) -> str:
    p = summary.cell.problem
    return f"{summary.cell.workload.value}, {'causal' if p.causal else 'non-causal'}, {p.dtype.value}, N={p.N}"


def backends(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    """Which kernel each method says that it reached; a line only where one says so."""
    found: dict[str, list[str]] = {}
    for summary in summaries:
        if backend := summary.fact("backend"):
            found.setdefault(findings.names[summary.cell.label], []).append(backend)
    words = "; ".join(f"{name} {_several(names)}" for name, names in found.items())
    return [f"Backend: {one_line(words)}."] if found else []


def _flags(flags: Iterable[str]) -> list[str]:
    counts = Counter(flags).most_common()
    return [f"Flags (cells): {', '.join(f'{flag} ({count})' for flag, count in counts)}."] if counts else []


def _memory_allocator(findings: Findings) -> str:
    """Memory passes on a CPU give freed blocks back, whatever the policy of the timings."""
    return "" if findings.run.surroundings.device.startswith("cuda") else " with the allocator policy system"


def shapes(summaries: Sequence[CellSummary]) -> str:
    """`B=1, H=8, D=64, M=64`; the lengths stand in the table or on the axis."""
    problems = [s.cell.problem for s in summaries]
    fixed = ", ".join(f"{axis}={_several(getattr(p, axis) for p in problems)}" for axis in ("H", "D", "M"))
    # a batch that was searched for and not found is none
    batches = [s.B for s in summaries if s.ok or s.cell.batch is Batch.FIXED]
    return f"B={_several(batches) or 'max'}, {fixed}"


def batches(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    """The batches that were searched for, and what kept them from being larger; a line only where some were."""
    found: dict[str, list[str]] = {}
    for s in summaries:
        if s.ok and s.cell.batch is Batch.LARGEST:
            bound = f" ({_BOUNDS.get(s.bound, s.bound)})" if s.bound else ""
            found.setdefault(findings.names[s.cell.label], []).append(f"{s.B:,} at {length(s.cell.problem.N)}{bound}")
    words = "; ".join(f"{name} {', '.join(each)}" for name, each in found.items())
    about = (
        f"Largest B, to one part in sixteen, in {FIT_SHARE:.0%} of the memory allowed and with a call within half the budget"
    )
    return [f"{about}: {one_line(words)}."] if found else []


def how(summaries: Sequence[CellSummary]) -> str:
    """Clock, allocator, precision and inputs of these cells."""
    cells = [s.cell for s in summaries]
    clocks = _several(s.fact("clock") for s in summaries if s.ok) or _several(c.clock.value for c in cells)
    settings = {
        "clock": clocks,
        "allocator": _several(c.allocator.value for c in cells),
        "float32 matmul precision": _several(c.matmul_precision.value for c in cells),
        "inputs": _several(c.inputs.value for c in cells),
    }
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def machine(findings: Findings) -> str:
    """Device, processor, versions, and the run."""
    run = findings.run
    facts = run.environment | run.surroundings.facts
    known = [form.format(one_line(str(facts[name]))) for name, form in _MACHINE if facts.get(name) is not None]
    return f"{', '.join([f'Device {run.surroundings.device}', *known])}; environment {run.environment_digest}; run {run.id}."


def device_name(findings: Findings) -> str:
    """The GPU, or the processor, in the maker's words."""
    facts = findings.run.environment | findings.run.surroundings.facts
    names = ("gpu", "processor") if findings.run.surroundings.device.startswith("cuda") else ("processor",)
    return next((one_line(str(facts[name])) for name in names if facts.get(name)), findings.run.surroundings.device)


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _several(values: Iterable[object]) -> str:
    """`8`, or `1 to 128` of numbers, or `cold, wall` of words."""
    found = list(dict.fromkeys(values))
    if len(found) > 2 and all(isinstance(value, int) for value in found):
        return f"{min(found)} to {max(found)}"  # type: ignore[type-var]
    return ", ".join(str(value) for value in found if value != "")


def model_note(summaries: Sequence[CellSummary]) -> str:
    """Layers and widths; how it was trained is said by `training_notes`."""
    models = dict.fromkeys(_shape(s) for s in summaries if s.cell.training)
    return f"Model: {'; '.join(models)}, around the attention of each method." if models else ""


def _shape(summary: CellSummary) -> str:
    p, model = summary.cell.problem, summary.cell.training
    assert model is not None
    layers = f"{model.layers} layer{'s' if model.layers > 1 else ''}"
    return f"a pre-norm Transformer of {layers}, H={p.H}, D={p.D} (width {p.H * p.D}), feed-forward {model.feedforward}×"


def short_machine(findings: Findings) -> str:
    """`2 cores (Intel Xeon)`, or the name of the GPU."""
    full = device_name(findings)
    name = shorten(one_line(_NOISE.sub(" ", full)) or full, _SHORT)
    cores = (findings.run.environment | findings.run.surroundings.facts).get("cores")
    if findings.run.surroundings.device.startswith("cuda") or not isinstance(cores, int):
        return name
    return f"{cores} core{'' if cores == 1 else 's'} ({name})"
