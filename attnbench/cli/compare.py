"""`attnbench compare`: two runs, the methods of one run, or another commit measured beside the present one."""

import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.gate import exit_of
from attnbench.analyze.verdict import LEVEL
from attnbench.cli.collect import exits_when_interrupted
from attnbench.cli.errors import UsageError
from attnbench.cli.live import Live, measure_live
from attnbench.cli.outs import IMAGES, TABLES, check_outs, write_outs
from attnbench.cli.reading import summaries
from attnbench.report.findings import Findings
from attnbench.report.questions.comparison import table as comparison_table
from attnbench.report.questions.comparison.console import console
from attnbench.report.questions.comparison.judgement import Judgement
from attnbench.report.questions.comparison.judging import judge_methods, judge_runs
from attnbench.report.text import latex, markdown
from attnbench.schema.history import machine
from attnbench.schema.run import RunInfo
from attnbench.store.run_folder import RunFolder

FORMS = (*TABLES, *IMAGES)


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    runs: tuple[Path, ...]
    baseline: str | None
    margin: float
    outs: tuple[Path, ...]
    exit_code: bool
    across_machines: bool
    live: Live | None = None


def compare(options: Options) -> None:
    """Print the judgement, write what was asked for; exits with the gate's code where that was asked for."""
    check_outs(options.outs, FORMS)
    with exits_when_interrupted():
        judgement = _judgement(options)
    show(judgement)
    write_outs(options.outs, lambda form: form_of(judgement, form))
    if options.exit_code:
        sys.exit(exit_of(judgement.comparisons))


def _judgement(options: Options) -> Judgement:
    if options.live is not None:
        if options.runs or options.baseline:
            raise UsageError("--live GIT_REF --suite SUITE measures; it takes neither runs nor --baseline")
        return measure_live(options.live)
    if len(options.runs) == 1:
        return _methods(options)
    if len(options.runs) != 2:
        raise UsageError("name two runs, or one (its methods are compared), or --live GIT_REF --suite SUITE")
    if options.baseline:
        raise UsageError("--baseline names a method of one run; with two runs the first is the baseline")
    old, new = map(read_run, options.runs)
    if options.exit_code:
        refuse_unlike(old[0], new[0], options.across_machines)
    return judge_runs(old, new, options.margin, LEVEL)


def _methods(options: Options) -> Judgement:
    folder = RunFolder(options.runs[0])
    run = folder.info()
    findings = Findings.over(run, summaries(folder, run))
    if options.baseline is not None and options.baseline not in findings.labels:
        meant = get_close_matches(options.baseline, findings.labels, n=1)
        hint = f"did you mean {meant[0]!r}? " if meant else ""
        raise UsageError(f"--baseline {options.baseline}: {hint}the run has: {', '.join(findings.labels)}")
    return judge_methods(findings, options.baseline, options.margin, LEVEL)


def read_run(path: Path) -> tuple[RunInfo, list[CellSummary]]:
    """A run and its cells; raises StoreError."""
    folder = RunFolder(path)
    info = folder.info()
    return info, summaries(folder, info)


def refuse_unlike(old: RunInfo, new: RunInfo, across_machines: bool) -> None:
    """An exit code says something of a change; a difference between two machines says nothing of it. Raises UsageError."""
    if across_machines or machine(old) == machine(new):
        return
    raise UsageError(
        f"the runs are of unlike machines: {machine(old)}; and {machine(new)}. What differs between them is no regression; "
        "measure both on one machine, or judge them all the same with --across-machines"
    )


def show(judgement: Judgement) -> None:
    """On the terminal."""
    encoding = (sys.stdout.encoding or "ascii").lower()
    print(console(judgement, unicode="utf" in encoding))


def form_of(judgement: Judgement, form: str) -> bytes:
    """Markdown, LaTeX, CSV, or the plot of ratios."""
    if form == "csv":
        return comparison_table.comparison_csv(judgement).encode()
    if form in IMAGES:
        # matplotlib takes a second to import
        from attnbench.report.questions.comparison.figure import ratio_plot

        return ratio_plot(judgement, form)
    table = comparison_table.comparison_table(judgement)
    text = markdown.markdown([table], "Comparison") if form == "md" else latex.latex([table])
    return text.encode()
