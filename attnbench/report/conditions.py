"""The conditions of a measurement, in words: two lines below a table, and all the rest once in a document."""

from collections import Counter
from collections.abc import Iterable, Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.main_counter import STATE
from attnbench.analyze.quantities import ENERGY, MEMORY, Center, Quantity
from attnbench.analyze.roofline import placed
from attnbench.analyze.sections import Section, grouped
from attnbench.report.findings import Findings
from attnbench.report.text.models import model_notes
from attnbench.report.text.names import one_line, shorten, without_noise
from attnbench.report.text.statuses import SCARCE, reasons
from attnbench.schema.cell import Batch, Inputs
from attnbench.schema.errand import FIT_SHARE
from attnbench.schema.outcome import SELECTION_SHARE
from attnbench.schema.run import RunInfo
from attnbench.schema.units import counted, length

_MACHINE = {
    "gpu": "{}",
    "processor": "{}",
    "cpu_capability": "{}",
    "cores": "{} cores",
    "memory_gib": "{} GiB memory",
    "threads": "{} threads",
    "lanes": "{} lanes at a time",
    "torch": "torch {}",
    "cuda": "CUDA {}",
    "python": "Python {}",
    "system": "{}",
}
_FACTS = {
    "exact": "Exact",
    "adapted": "Adapted before it was measured, as training would",
    "not_deterministic": "Not deterministic",
}
"""What is said of methods, by the name of the fact that was recorded."""
_REASONS = {ENERGY: "energy_reason", SELECTION_SHARE: "selection_reason"}
"""Facts that say why a cell has no figure, by the name of the figure."""
_SHORT = 40
"""Letters of a machine's name within a sentence."""


def first_look(quantity: Quantity) -> str:
    """Say that there are fewer replicates than a figure takes to be told apart."""
    return f"First look: fewer than {quantity.enough} replicates; small differences cannot be told from chance."


def meaning(quantity: Quantity, summaries: Sequence[CellSummary]) -> str:
    """Say what a figure is; of memory, which counter is read and how."""
    if quantity.name == MEMORY and quantity.about:
        sources = _several(one_line(c.source) for s in summaries if (c := s.memory.counters.get(quantity.about)))
        return f"Memory: {quantity.about} ({sources}), beyond what lived before the call; in passes of their own, never timed."
    keys = ", ".join(dict.fromkeys(words for s in summaries if (words := s.fact("top_keys")))) or "top"
    return quantity.meaning.replace("{top_keys}", keys).replace("top top", "top")


def replication(summaries: Sequence[CellSummary], quantity: Quantity) -> str:
    """Say how many replicates there are, and what stands for their range; one line below a table."""
    measured = [s for s in summaries if s.ok]
    if not measured:
        return "No cell gave a number."
    if not quantity.is_replicated:
        return f"n = {_span([s.memory.replicates for s in measured])} a cell." if quantity.name == MEMORY else ""
    counts = [s.replicates for s in measured]
    if max(counts) == 1:
        return f"n = 1 replicate a cell, so no range. {first_look(quantity)}"
    summed = quantity.center is Center.SUMS
    few, enough = min(counts) < quantity.enough, max(counts) >= quantity.enough
    ranges = {
        "[a, b]: 95 % t interval of the mean": summed and enough,
        "[a, b]: least and greatest": summed and few,
        "±: 95 % t interval of the mean logarithm": not summed and enough,
        "(-a +b%): least and greatest": not summed and few,
    }
    middle = "mean" if summed else "median of the replicate medians"
    words = "; ".join(text for text, used in ranges.items() if used)
    look = f" {first_look(quantity)}" if few else ""
    return f"n = {_span(counts)} replicates a cell, each in its own process: {middle}; {words}.{look}"


def measured(findings: Findings, sections: Sequence[Section] | None = None) -> list[str]:
    """Say how cells were measured, a line each: what holds in all sections once, else with the sections that it holds in."""
    members = findings.sections if sections is None else sections
    lines = grouped((line, section.title) for section in members for line in _of_section(findings, section) if line)
    placed = (line if len(held) == len(members) else f"{'; '.join(held)}: {line}" for line, held in lines.items())
    return [*placed, machine(findings.run)]


def _of_section(findings: Findings, section: Section) -> list[str]:
    cells, timed, called = section.summaries, section.workload.is_timed, findings.called
    ok = [s for s in cells if s.ok]
    found = reasons(cells, findings.names)
    if timed and (samples := sum(s.samples for s in ok)):
        outliers = sum(s.outliers for s in ok)
        found.append(f"{counted(samples, 'sample')}; outliers by Tukey's rule, counted and kept: {outliers:,}.")
    found += [*warnings(findings, cells), *backends(findings, cells)]
    within = f"in {FIT_SHARE:.0%} of the memory allowed and with a call within half the budget"
    largest = []
    for s in ok:
        if s.cell.batch is Batch.LARGEST:
            bound = f" ({SCARCE.get(s.bound, s.bound)})" if s.bound else ""
            largest.append((findings.names[s.cell.label], f"{s.B:,} at {length(s.cell.problem.N)}{bound}"))
    found += _grouped(f"Largest B, to one part in sixteen, {within}", largest, "{} {}")
    if timed:
        # why the counter is not the usual one, and why it is missing where it is
        counter = findings.counter
        missing = dict.fromkeys(one_line(counter.why_not(s) if counter else s.memory.reason) for s in ok)
        why = [reason for reason in missing if reason]
        if counter is None:
            found.append(f"Memory: no counter was read{''.join(f'; {reason}' for reason in why)}.")
        else:
            found += [*([f"{counter.note}."] if counter.note else []), *(f"Memory n/a: {reason}." for reason in why)]
    asked = {*findings.run.suite.report.tables, *findings.run.suite.report.plots}
    for quantity in (findings.quantities[name] for name in _REASONS if name in asked):
        why_not = [(s.fact(_REASONS[quantity.name]), called(s.cell.method)) for s in ok if quantity.estimate(s) is None]
        title = f"{quantity.title[0].upper()}{quantity.title[1:]} n/a"
        found += _grouped(title, [(words, method) for words, method in why_not if words])
    if section.workload.keeps_state:
        found.append("State: what a method keeps between tokens, with room for all N, by its own count; exact.")
        found += [f"State n/a: {reason}." for reason in dict.fromkeys(one_line(STATE.why_not(s)) for s in ok) if reason]
    for fact, title in _FACTS.items():
        found += _grouped(title, [(words, called(s.cell.method)) for s in cells if (words := s.fact(fact))])
    settings = {"inputs": _inputs(cells)}
    if timed:
        each = [s.cell for s in cells]
        settings = {
            "clock": _several(s.fact("clock") for s in ok) or _several(c.clock.value for c in each),
            "allocator": _several(c.allocator.value for c in each),
            "float32 matmul precision": _several(c.matmul_precision.value for c in each),
            **settings,
        }
    how = ", ".join(f"{name} {value}" for name, value in settings.items())
    return [*found, *model_notes(cells), f"{shapes(cells)}; {how}."]


def warnings(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    """Return flags with the number of cells that carry them, and times that no machine of this roof can reach."""
    flags = Counter(flag for s in summaries if s.ok for flag in (*s.flags, *s.memory.flags)).most_common()
    lines = list(findings.left_out)
    if flags:
        lines.append(f"Flags (cells): {', '.join(f'{flag} ({count})' for flag, count in flags)}.")
    above = [(s, at) for s in summaries if (at := placed(s, findings.run)) and at.above]
    if any(at.in_cache for _, at in above):
        lines.append(
            "Above the roof where what a call touches stayed in cache: the roof's copy does not; see `warning` in table.csv."
        )
    if impossible := [s for s, at in above if not at.in_cache]:
        where = []
        for cell in (s.cell for s in impossible[:3]):
            shape = f"{cell.workload.words}, {cell.problem.mask}, {cell.problem.dtype.value}, N={cell.problem.N}"
            where.append(f"{findings.names[cell.label]} ({shape})")
        more = f" and {len(impossible) - 3} more" if len(impossible) > 3 else ""
        lines.append(f"Warning: {', '.join(where)}{more} took less time than the roof allows; see `warning` in table.csv.")
    return lines


def backends(findings: Findings, summaries: Sequence[CellSummary]) -> list[str]:
    """Return which kernel each method says that it reached; a line only where one says so."""
    pairs = [(findings.names[s.cell.label], words) for s in summaries if (words := s.fact("backend"))]
    return _grouped("Backend", pairs, "{} {}")


def _grouped(title: str, pairs: Sequence[tuple[str, str]], form: str = "{} ({})") -> list[str]:
    """Return one line of what belongs to each key: `Exact: softmax in float64 (a, b).`; none where there is nothing."""
    # what is told twice is said once
    found = grouped(dict.fromkeys(pairs))
    words = "; ".join(form.format(key, ", ".join(values)) for key, values in found.items())
    return [f"{title}: {one_line(words)}."] if found else []


def shapes(summaries: Sequence[CellSummary]) -> str:
    """Write `B=1, H=8, D=64, M=64`; the lengths stand in the table or on the axis."""
    problems = [s.cell.problem for s in summaries]
    fixed = ", ".join(f"{axis}={_several(getattr(p, axis) for p in problems)}" for axis in ("H", "D", "M"))
    # a batch that was searched for and not found is none
    ran = [s.B for s in summaries if s.ok or s.cell.batch is Batch.FIXED]
    return f"B={_several(ran) or 'max'}, {fixed}"


def _inputs(summaries: Sequence[CellSummary]) -> str:
    """Write `normal`, or `peaked, queries and keys times 0.25`; a recording by its name."""
    cells = [s.cell for s in summaries]
    kinds = _several(f"{c.inputs} {c.recording}".strip() if c.inputs is Inputs.RECORDED else c.inputs.value for c in cells)
    scales = _several(f"{c.scale:g}" for c in cells)
    return one_line(kinds if scales in {"1", ""} else f"{kinds}, queries and keys times {scales}")


def machine(run: RunInfo) -> str:
    """Name the device, the processor, versions, and the run."""
    facts = run.environment | run.surroundings.facts
    known = []
    for name, form in _MACHINE.items():
        if (fact := facts.get(name)) is not None:
            known.append((form.removesuffix("s") if fact == 1 else form).format(one_line(str(fact))))
    others = [f"; also {one_line(run.on(digest).machine)}, environment {digest}" for digest in run.elsewhere]
    device = ", ".join([f"Device {run.surroundings.device}", *known])
    return f"{device}; environment {run.environment_digest}{''.join(others)}; run {run.id}."


def on_each_device(findings: Findings, sections: Sequence[Section] | None = None) -> list[RunInfo]:
    """Return the run as it was measured on each device that cells come from, its own first: of all cells, or of sections."""
    run = findings.run
    cells = findings.summaries if sections is None else [cell for section in sections for cell in section.summaries]
    others = [digest for digest in run.elsewhere if any(cell.environment == digest for cell in cells)]
    # what was not run yet stands with the run's own device
    own = [] if others and all(cell.environment in others for cell in cells) else [run]
    return [*own, *map(run.on, others)]


def device_name(findings: Findings, sections: Sequence[Section] | None = None) -> str:
    """Return the GPU, or the processor, in the maker's words; of cells of unlike devices, that of each."""
    return "; ".join(dict.fromkeys(device_of(run) for run in on_each_device(findings, sections)))


def device_of(run: RunInfo) -> str:
    """Return the GPU, or the processor, in the maker's words, of a run that was measured on one device."""
    facts = run.environment | run.surroundings.facts
    names = ("gpu", "processor") if run.surroundings.device.startswith("cuda") else ("processor",)
    return next((one_line(str(facts[name])) for name in names if facts.get(name)), run.surroundings.device)


def commit(run: RunInfo) -> str:
    """Return the commit, short, with a plus where the checkout had changes; empty where it is not known."""
    known = run.git.get("commit")
    return one_line(f"{str(known)[:10]}{'+' if run.git.get('dirty') else ''}") if known else ""


def short_machine(findings: Findings) -> str:
    """Write `2 cores (Intel Xeon)`, or the name of the GPU; of cells of unlike devices, that of each."""
    found: dict[str, None] = {}
    for run in on_each_device(findings):
        full = device_of(run)
        name = shorten(without_noise(full) or full, _SHORT)
        cores = (run.environment | run.surroundings.facts).get("cores")
        if isinstance(cores, int) and not run.surroundings.device.startswith("cuda"):
            name = f"{counted(cores, 'core')} ({name})"
        found[name] = None
    return " and ".join(found)


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _several(values: Iterable[object]) -> str:
    """Write `8`, or `1 to 128` of numbers, or `cold, wall` of words."""
    found = list(dict.fromkeys(values))
    if len(found) > 2 and all(isinstance(value, int) for value in found):
        return f"{min(found)} to {max(found)}"  # type: ignore[type-var]
    return ", ".join(str(value) for value in found if value != "")
