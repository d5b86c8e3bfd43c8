"""Crossovers in words, tables, CSV and pictures; the stored texts of one run with every kind of answer."""

from dataclasses import replace

import numpy as np
import pytest

from attnbench.analyze.crossover import Crossing, Crossover, Lead, Versus
from attnbench.analyze.quantities import Quantity, quantities
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import baseline
from attnbench.analyze.statistics import Interval, Spread
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.drawing.style import applied
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.figure import _figures, crossover_plot
from attnbench.report.questions.crossover.table import crossover_csv, crossover_tables, lines, sentence
from attnbench.report.text import markdown
from attnbench.report.text.table import wrapped
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Status
from tests.report.conftest import LENGTHS, Law, Synthetic
from tests.report.stored import as_stored

TIME = quantities([])["time"]
MEMORY = replace(quantities([])["memory"], about="host_rss_peak")
X, Y, TIE = Lead.OF, Lead.OVER, Lead.TIE


def told(leads: list[Lead], *crossings: Crossing, replicates: int = 5, metric: Quantity = TIME) -> str:
    """The sentence of a comparison over 512, 1024, ..."""
    versus = Versus(Section(Workload.FORWARD, True, "float32", ()), "x", "y", metric)
    versus.__dict__["crossover"] = Crossover(dict(zip(LENGTHS, leads, strict=False)), crossings, replicates)
    return sentence(versus, {"x": "X", "y": "Y"})


def at(N: float, low: int, high: int, gained: bool = True, known: bool = True) -> Crossing:
    return Crossing(N, (low, high), Interval(0.95 * N, 1.05 * N, Spread.INTERVAL) if known else None, gained)


@pytest.mark.parametrize(
    ("leads", "crossings", "words"),
    [
        ([TIE, TIE], [], "X and Y cannot be told apart at N = 512 and 1,024, forward, causal, float32"),
        (
            [X, Y],
            [at(700, 512, 1024, False)],
            "from the shortest length compared (512) to N = 700 [665–735], X is faster than Y,",
        ),
        ([Y, Y, TIE], [], "none up to N = 1,024, the longest length at which it can be told: Y stays ahead of X, forward, "),
        ([TIE, X, TIE], [], "at the latest from N = 1,024 to N = 1,024 at least, X is faster than Y,"),
        (
            [Y, X, Y, X],
            [at(600, 512, 1024), at(1500, 1024, 2048, False), at(3000, 2048, 4096)],
            "from N = 600 [570–630] to N = 1,500 [1,420–1,580] and from N = 3,000 [2,850–3,150] on, X is faster than Y,",
        ),
    ],
)
def test_a_sentence_says_where_one_leads_or_that_it_is_unclear(
    leads: list[Lead], crossings: list[Crossing], words: str
) -> None:
    assert told(leads, *crossings).startswith(words)


def test_a_first_look_says_so_and_gives_the_bracket_only_which_counters_that_are_read_once_are_not() -> None:
    crossing = at(1500, 1024, 2048, known=False)
    want = "from somewhere between N = 1,024 and 2,048 on, X is faster than Y, forward, causal, float32 "
    assert told([Y, Y, X], crossing, replicates=3) == want + "(first look, 3 replicates: cannot tell)"
    assert told([Y, Y, X], crossing, replicates=1) == want + "(first look, 1 replicate: cannot tell)"
    counted = told([Y, Y, X], crossing, replicates=1, metric=MEMORY)
    assert counted == "from about N = 1,500 (between 1,024 and 2,048) on, X needs less memory than Y, forward, causal, float32"


@pytest.fixture
def run() -> Synthetic:
    """Overtaken early, overtaken late, never, always; out of memory, out of its mind."""
    laws = (
        Law("softmax.naive", 9e-3, 2.0, stop_at=2**14, reason="memory limit of 17.2 GB reached"),
        Law("softmax.sdpa", 3e-3, 1.95, tier="library"),
        Law("linear.chunked", 8e-3, 1.0, {"chunk": 64}),
        Law("lsh.reformer", 15e-3, 1.08, {"rounds": 4}, stop_at=2**15, status=Status.CRASHED, reason="killed by signal 11"),
        Law("sparse.strided", 1e-3, 1.5),
        Law("vq.blockwise", 1, 1.9),
        Law("landmark.nystrom", 2e-3, 1.5, stop_at=1, status=Status.INCORRECT, reason="its check: o differs | 1e-6"),
    )
    return Synthetic(laws, lengths=LENGTHS, workloads=(Workload.FORWARD,), causal=(True,), replicates=5)


def compared(findings: Findings, metric: str = "time") -> list[Versus]:
    """Every method against the strongest exact one."""
    found = quantities(findings.summaries)[metric]
    bases = [(section, baseline(section)) for section in findings.sections]
    return [Versus(s, label, base, found) for s, base in bases if base for label in s.series if label != base]


@pytest.mark.parametrize("replicates", [3, 5])
def test_words_tables_and_csv_of_a_run_are_as_stored(run: Synthetic, replicates: int) -> None:
    run.replicates = replicates
    findings = Findings.of(run.run(), run.records())
    pairs, name = compared(findings), f"crossover_{replicates}"
    assert as_stored(f"{name}.txt", "\n".join(map(wrapped, lines(findings, pairs))) + "\n")
    assert as_stored(f"{name}.md", markdown.markdown(crossover_tables(findings, pairs), "crossover"))
    assert as_stored(f"{name}.csv", crossover_csv(pairs))


def test_sections_have_a_table_each_and_memory_is_named_by_its_counter() -> None:
    run = Synthetic(lengths=LENGTHS[:3])
    findings = Findings.of(run.run(), run.records())
    for metric, name in (("time", "time"), ("memory", "memory (host_rss_peak)")):
        found = crossover_tables(findings, compared(findings, metric))
        assert [table.title for table in found] == [f"Crossover by {name}: {section.title}" for section in findings.sections]
    assert not [note for table in found for note in table.notes if "Fieller" in note]
    (tied, *_) = compared(findings)
    tied.__dict__["crossover"] = Crossover({512: Y, 1024: TIE}, (), 5)
    assert crossover_tables(findings, [tied])[0].rows[0][2] == "none up to N = 512"


@pytest.mark.parametrize("replicates", [1, 3])
def test_there_is_a_picture_of_a_first_look_of_several_sections_and_of_nothing(replicates: int) -> None:
    run = Synthetic(lengths=LENGTHS[:5], workloads=(Workload.FORWARD,), replicates=replicates)
    findings = Findings.of(run.run(), run.records())
    assert crossover_plot(findings, compared(findings), "svg")
    assert b"nothing to compare" in crossover_plot(findings, [v for v in compared(findings) if v.of == "sparse.strided"], "svg")


def test_where_more_is_better_the_picture_has_the_ratio_itself_and_a_method_is_ahead_above_1() -> None:
    run = Synthetic(lengths=LENGTHS[:3], causal=(True,), workloads=(Workload.FORWARD,))
    findings, curves = Findings.of(run.run(), run.records()), []
    for metric, side in (("time", "below"), ("throughput", "above")):
        with applied():
            (picture,) = _figures(findings, compared(findings, metric), FOLDER)
        assert f"{side} 1 a method is ahead" in picture.get_suptitle()
        drawn = [np.asarray(line.get_ydata(), float) for line in picture.axes[0].lines]
        curves.append([curve for curve in drawn if len(curve) == len(run.lengths)])
    np.testing.assert_allclose(np.prod(curves, axis=0), 1)
