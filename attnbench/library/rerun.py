"""Measuring a cell of a stored run once more, as its suite says, beside what it came to then."""

from typing import Unpack

from attnbench.analyze.verdict import LEVEL
from attnbench.library.answers import Comparison
from attnbench.library.measuring import run as measure
from attnbench.library.runs import Run, RunLike, read
from attnbench.report.findings import Findings
from attnbench.report.questions.comparison.judgement import judge_runs
from attnbench.session.asked import cells_meant, share
from attnbench.session.scene import How, Measuring


def rerun(run: RunLike, cell: str, *, margin: float | str = "5%", **how: Unpack[Measuring]) -> tuple[Run, Comparison]:
    """Measure a cell of a stored run in a run folder of its own; return that run, and the verdict on both, the old one first.

    `cell` is the beginning of a key, as the column `cell` of table.csv has it; or a method with its parameters, as
    `linear.chunked(chunk=64)`, all of whose cells are measured. Raises ArgumentError where no cell is meant or several keys
    begin so, and what `run` raises.
    """
    How.of(how, "rerun", without=("impl", "device"))
    reach, then = share(margin, "margin"), read(run)
    chosen = cells_meant(then.info.cells, cell)
    made = measure(then.info.suite, cells=lambda _: chosen, **how)
    keys = {each.key for each in chosen}
    old = [summary for summary in then.findings.summaries if summary.cell.key in keys]
    # of methods that were not asked now nothing is to be said
    methods = {name: then.info.methods[name] for name in made.info.methods if name in then.info.methods}
    before = Findings.over(then.info.model_copy(update={"methods": methods}), old)
    return made, Comparison.of(judge_runs(before, made.findings, reach, LEVEL))
