"""`attnbench crossover`: from which length on one method is ahead of another, read from a run, or measured for the purpose."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnbench.analyze.metric import Metric, metrics
from attnbench.analyze.sections import Section
from attnbench.analyze.versus import Versus, baseline
from attnbench.cli.choose import pick, pick_one
from attnbench.cli.errors import UsageError
from attnbench.cli.outs import IMAGES, TABLES, check_outs, write_outs
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.table import crossover_csv, crossover_tables, lines
from attnbench.report.text import latex, markdown
from attnbench.report.text.names import ascii_only
from attnbench.report.text.numbers import percent
from attnbench.report.text.plain import wrapped
from attnbench.store.run_folder import RunFolder


@dataclass(frozen=True)
class Measuring:
    """How to measure, and how long."""

    resolution: float
    """How well N is to be known, each way, as a share of it."""
    most: int
    """Lengths added to a section."""
    minutes: float | None
    """After these no length is added."""
    replicates: int
    impls: tuple[str, ...]
    device: str | None
    results: Path
    fresh: bool
    wait: bool = True
    """Whether another run that measures on the device is waited for."""


@dataclass(frozen=True)
class Options:
    """What the command line said; `measuring` None: the source is a run folder and is only read."""

    source: str
    of: str | None
    over: str | None
    metric: str
    outs: tuple[Path, ...]
    measuring: Measuring | None = None


def crossover(options: Options) -> None:
    """Print a line a section, write what was asked for. Raises UsageError, StoreError; after measuring also ScoutError."""
    check_outs(options.outs, (*TABLES, *IMAGES))
    findings = _findings(options)
    compared = versus(findings, options.of, options.over, options.metric)
    show([*lines(findings, compared), *(advice(compared, options.measuring) if options.measuring else [])])
    write_outs(options.outs, lambda form: form_of(findings, compared, form))


def advice(compared: Sequence[Versus], measuring: Measuring) -> list[str]:
    """What to do about crossings that are not known as well as was asked for."""
    crossings = [crossing for pair in compared for crossing in pair.crossover.crossings]
    if all(crossing.reach <= 1 + measuring.resolution for crossing in crossings):
        return []
    reach = percent(measuring.resolution)
    return [f"not all of it is known to ±{reach}: more replicates narrow an interval, a larger --max-points a bracket"]


def _findings(options: Options) -> Findings:
    if options.measuring is None:
        if not Path(options.source).is_dir():
            raise UsageError(
                f"{options.source} is no run folder; to measure the suite of that name: "
                f"attnbench crossover {options.source} --of METHOD --over METHOD --measure"
            )
        folder = RunFolder(Path(options.source))
    else:
        # what measures need not be imported to read a run
        from attnbench.cli.crossover_live import measure

        folder = measure(options.source, options.of, options.over, options.metric, options.measuring)
    return Findings.of(folder.info(), folder.read())


def versus(findings: Findings, of: str | None, over: str | None, metric: str) -> list[Versus]:
    """All pairs that are asked for, section by section; by default every method against the strongest exact softmax.

    Raises UsageError where a name or the metric is not the run's, or no section has both methods.
    """
    chosen = the_metric(findings, metric)
    ours = pick(of, findings.labels, "--of") if of is not None else findings.labels
    theirs = pick_one(over, findings.labels, "--over") if over is not None else None
    if theirs is not None and ours == [theirs]:
        raise UsageError(f"--of and --over both name {theirs}; there is nothing to compare")
    found = [pair for section in findings.sections for pair in _pairs(findings, section, ours, theirs, chosen)]
    if not found:
        raise UsageError(_nothing(findings, of, theirs))
    return found


def the_metric(findings: Findings, name: str) -> Metric:
    """The one of that name; raises UsageError that says which the run has."""
    known = metrics(findings.summaries)
    if name not in known:
        raise UsageError(f"--metric {name}: no cell of the run has that; it has: {', '.join(known) or 'no numbers at all'}")
    return known[name]


def _pairs(findings: Findings, section: Section, ours: Sequence[str], theirs: str | None, metric: Metric) -> list[Versus]:
    """Of one section, as far as it has both methods, and the metric at all."""
    over = theirs if theirs is not None else baseline(section, findings.run.suite.report.baselines)
    if over is None or over not in section.series or not any(metric.of(cell) for cell in section.summaries):
        return []
    return [Versus(section, label, over, metric) for label in ours if label != over and label in section.series]


def _nothing(findings: Findings, of: str | None, theirs: str | None) -> str:
    if theirs is None:
        return f"no exact softmax attention of the run has numbers beside another method; name one: --over {findings.labels[0]}"
    return f"no section of the run has both {of or 'another method'} and {theirs}"


def show(text: Sequence[str]) -> None:
    """Wrapped, in plain letters where the terminal is not UTF-8."""
    unicode = "utf" in (sys.stdout.encoding or "ascii").lower()
    for line in text:
        print(wrapped(line) if unicode else ascii_only(wrapped(line)))


def form_of(findings: Findings, compared: Sequence[Versus], form: str) -> bytes:
    """Markdown, LaTeX, CSV, or the picture of the ratios over length."""
    if form == "csv":
        return crossover_csv(compared).encode()
    if form in IMAGES:
        # matplotlib takes a second to import
        from attnbench.report.questions.crossover.figure import crossover_plot

        return crossover_plot(findings, compared, form)
    tables = crossover_tables(findings, compared)
    run = findings.run
    text = markdown.markdown(tables, f"{run.suite.name}, run {run.id}") if form == "md" else latex.latex(tables)
    return text.encode()
