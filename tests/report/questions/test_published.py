"""Printed figures beside ours: the table in its formats, the lines of a terminal, the page of all suites."""

from collections.abc import Callable
from typing import Any

import pytest

from attnbench.analyze.published import not_run
from attnbench.analyze.published_figures import Figure, Kind
from attnbench.analyze.statistics import Interval, Spread
from attnbench.report.findings import Findings
from attnbench.report.questions.published.page import Shown, published_page
from attnbench.report.questions.published.table import ours, published_lines, published_tables, table_of
from attnbench.report.tables import tables
from attnbench.report.text.latex import latex
from attnbench.report.text.markdown import one_table
from attnbench.report.text.names import ascii_only
from attnbench.schema.published import Band, Published
from attnbench.schema.suite import ReportSpec
from attnbench.suite.load import load, shipped
from tests.report.conftest import Synthetic
from tests.report.stored import as_stored

SDPA, CHUNKED, NAIVE = {"method": "softmax.sdpa"}, {"method": "linear.chunked"}, {"method": "softmax.naive"}


def entry(where: str, what: str, comparable: str, **more: Any) -> dict[str, Any]:
    return {"where": where, "what": what, "comparable": comparable, **more}


def asked(metric: str, of: dict[str, str], over: dict[str, str] | None = None, when: str = "") -> dict[str, Any]:
    sides = {name: {**side, "when": when} if when else side for name, side in (("of", of), ("over", over)) if side}
    return {"metric": metric, "workload": "forward", **sides}


GRID = {"down": {"N": [512, 1024, 2048, 4096]}, "across": {"causal": [True]}, "numbers": [[1.5], [3], [7], [9]]}
FASTER = "linear is faster than softmax at N = 2048"
SMALLER = "memory of softmax over linear at N = {N}"
BAND, HUNDRED, THREE = {"at_least": 1.8, "at_most": 2.2}, {"at_least": 100}, {"at_least": 3}
ROWS = (
    entry("Figure 1", "softmax's time grows as N^2", "claim", says="slope 2", ours=asked("growth", SDPA), reproduced=BAND),
    entry("Figure 1", FASTER, "ratio", says="2×", ours=asked("throughput", CHUNKED, SDPA, "N == 2048"), reproduced=HUNDRED),
    entry("Figure 1", SMALLER, "ratio", ours=asked("memory", NAIVE, CHUNKED), reproduced=THREE, grid=GRID),
    entry("Table 3", "error rate", "quality", says="5.12", needs="the licensed corpus"),
    entry("Table 5", "time of N = 1024", "hardware", says="1.5 s", ours=asked("time", SDPA, when="N == 1024")),
)


def of(small: Synthetic, *written: dict[str, Any]) -> Findings:
    """A run whose suite names these figures."""
    run = small.run()
    figures = tuple(Published.model_validate(each, strict=False) for each in written)
    suite = run.suite.model_copy(update={"published": figures, "source": "Someone 2020, arXiv:2001.00001, Figure 1"})
    return Findings.of(run.model_copy(update={"suite": suite}), small.records())


def said(small: Synthetic, *written: dict[str, Any]) -> str:
    """What the terminal gets, on one line."""
    return " ".join(" ".join(published_lines(of(small, *written))).split())


@pytest.fixture
def findings(small: Synthetic) -> Findings:
    """All kinds of rows."""
    return of(small, *ROWS)


def test_the_terminal_and_the_page_of_all_suites_are_as_stored(findings: Findings) -> None:
    suite = findings.run.suite
    of_others = ("Other et al., Table 1", "arXiv:2302.00002, Table 1", "Table 2", "Table 2", "Table 2")
    theirs = tuple(p.model_copy(update={"where": where}) for p, where in zip(suite.published, of_others, strict=True))
    two = "arXiv:2301.00001, and Other et al. 2024, arXiv:2401.00003"
    mixed = suite.model_copy(update={"name": "mixed", "published": theirs, "source": two})
    later = suite.model_copy(update={"name": "later", "source": "Later 2023, arXiv:2303.00003"})
    nowhere = suite.model_copy(update={"name": "nowhere", "source": "a note"})
    suites = [Shown(nowhere, None), Shown(later, None), Shown(mixed, findings), Shown(suite, findings)]
    assert as_stored("published.txt", "\n".join(published_lines(findings)) + "\n")
    assert as_stored("published_page.md", published_page(suites))


def test_what_hangs_on_formulas_of_cost_is_read_wherever_the_figures_of_a_run_are_shown(small: Synthetic) -> None:
    dense = entry("Figure 1", "FLOPs over dense", "ratio", ours=asked("flops_of_dense", CHUNKED, when="N == 1024"))
    fast = entry("Figure 1", "linear over softmax", "ratio", ours=asked("flops", CHUNKED, SDPA, "N == 1024"))
    findings = of(small, {**dense, "reproduced": {"at_most": 1}}, fast)
    (table,) = published_tables(findings)
    # the formulas of these methods are all 1
    assert table.rows[0][2:] == ("1.00", "yes, as a ratio", "reproduced (upper bound 1)")
    assert table.rows[1][2].endswith("×]")
    assert published_lines(findings) == ["reproduced      Figure 1: FLOPs over dense: 1.00 (upper bound 1)"]
    (first, second) = Shown(findings.run.suite, findings).rows
    assert [row.figure and ours(row.figure) for row in (first, second)] == [row[2] for row in table.rows]


def test_notes_tell_one_sided_bounds_computed_ratios_and_intervals_of_fits_where_there_are_some(small: Synthetic) -> None:
    def notes(*written: dict[str, Any]) -> str:
        (table,) = published_tables(of(small, *written))
        return "\n".join(table.notes)

    growth, ratio = ROWS[:2]
    one_sided = "by however much: it does not say that the printed value came out here."
    assert one_sided in notes(growth, ratio)
    assert one_sided not in notes(growth)
    computed = "Published: as printed, but a ratio with two numbers beside it is computed from these two, which are printed;"
    assert notes(ratio).startswith("Published: as printed; n/a where no figure was found, or none was printed.\n")
    assert notes(ratio, {**ratio, "says": "2×, computed from 1 / 0.5"}).startswith(computed)
    fitted = notes({**growth, "ours": asked("memory_growth", CHUNKED)})
    assert "[a, b] of memory's growth: 95 % t interval of the fit, by how far the lengths lie from its line." in fitted
    assert "replicates" not in fitted


def test_the_suite_decides_where_among_its_tables_it_stands_and_very_many_figures_are_several(small: Synthetic) -> None:
    small.report = ReportSpec(tables=("published", "time"))
    titles = [table.title for table in tables(of(small, *ROWS))]
    assert titles == ["Published and reproduced", "Time per sample: forward, causal, float32"]
    assert [table.title for table in tables(of(small))] == ["Time per sample: forward, causal, float32"]
    grid = {"down": {"row": list(range(60))}, "across": {"k": [1]}, "numbers": [[float(i)] for i in range(60)]}
    found = published_tables(of(small, {**ROWS[3], "grid": grid}))
    assert [table.title for table in found] == [f"Published and reproduced, {i} of 3" for i in (1, 2, 3)]
    assert [len(table.rows) for table in found] == [20, 20, 20]


def test_the_terminal_says_why_a_claim_could_not_be_read_and_counts_what_the_run_was_not_made_for(small: Synthetic) -> None:
    failed = {**ROWS[1], "ours": asked("throughput", CHUNKED, NAIVE, "N == 2048")}
    assert said(small, failed) == (
        "cannot tell Figure 1: linear is faster than softmax at N = 2048: softmax.naive at N=2048: oom_host: memory limit of "
        "17.2 GB reached (lower bound 100)"
    )
    on_a_gpu = {**ROWS[1], "needs": "a GPU", "ours": asked("throughput", SDPA, SDPA, "N == 65536")}
    assert said(small, on_a_gpu, on_a_gpu) == "not run 2 more, for which this run was not made; table.md says what they need"


@pytest.mark.parametrize("render", [lambda table: one_table(table), lambda table: latex([table])], ids=["markdown", "latex"])
def test_words_of_a_suite_are_data_in_every_format(small: Synthetic, render: Callable[..., str]) -> None:
    words = "<b>|a|</b> \\input{x} $y$ \x1b[31m\nz"
    hostile = entry(words, words, "claim", says=words, needs=words)
    (table,) = published_tables(of(small, hostile))
    text = render(table)
    assert "\x1b" not in text
    assert "<b>" not in text
    assert "\\input{" not in text.replace("\\\\input\\{", "")
    assert "\x1b" not in said(small, {**hostile, "reproduced": {"at_most": 1}})


@pytest.mark.parametrize("name", [name for name, file in shipped().items() if b"\npublished:" in file.read_bytes()])
def test_no_letter_of_what_the_shipped_suites_say_is_missing_in_a_paper_or_an_ascii_terminal(name: str) -> None:
    found = not_run(load(name).suite.published, "no run")
    assert "[U+" not in latex([table_of(name, found)])
    assert "?" not in ascii_only("".join(f"{row.entry.what}{row.entry.says}{row.why}" for row in found))


def figure(kind: Kind, metric: str, value: float, ends: tuple[float, float] | None = None, unit: str = "") -> Figure:
    return Figure(value, Interval(*ends, Spread.INTERVAL) if ends else None, 3, kind, metric, unit)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (figure(Kind.RATIO, "throughput", 317.2, (300.0, 335.4), "×"), "317× [300×, 335×]"),
        (figure(Kind.RATIO, "batch", 14.0, None, "×"), "14.0×"),
        (figure(Kind.DIFFERENCE, "loss", 0.0031, (-0.0102, 0.0164), "nats"), "+0.003 [−0.010, 0.016] nats"),
        (figure(Kind.DIFFERENCE, "accuracy", -0.25, None), "−0.250"),
        (figure(Kind.DIFFERENCE, "accuracy", 0.0, (0.0, 0.0)), "0 [0, 0]"),
        (figure(Kind.ALONE, "growth", 1.98, (1.9, 2.06)), "N^1.980 [1.900, 2.060]"),
        (figure(Kind.ALONE, "time", 0.0123, (0.0121, 0.0125), "s"), "12.3 ms [12.1 ms, 12.5 ms]"),
        (figure(Kind.ALONE, "memory", 2.0**26, None, "B"), "64.0 MiB"),
        (figure(Kind.ALONE, "longest", 16384.0, None, "tokens"), "16,384 tokens"),
        (figure(Kind.ALONE, "bits", 0.621, (0.6, 0.642), "bits/dim"), "0.621 [0.600, 0.642] bits/dim"),
        (None, "–"),
    ],
)
def test_figures_are_written_as_people_read_them(given: Figure | None, text: str) -> None:
    assert ours(given) == text


def test_of_a_printed_table_each_number_may_be_a_bound_of_its_own(small: Synthetic) -> None:
    def held_against(*printed: float) -> dict[str, Any]:
        grid = {"down": {"N": [512, 1024]}, "across": {"causal": [True]}, "numbers": [[number] for number in printed]}
        return {**ROWS[2], "reproduced": {"at_least": "printed"}, "grid": grid}

    one = held_against(1.5, 100.0)
    (table,) = published_tables(of(small, one))
    assert [row[4] for row in table.rows] == ["reproduced (lower bound 1.5)", "not reproduced (lower bound 100)"]
    assert said(small, one).count("not reproduced") == 1
    assert said(small, held_against(100.0, 200.0)).endswith("2 of 2 figures")


def test_bounds_that_came_after_the_run_are_told_and_words_that_were_mended_are_not(findings: Findings) -> None:
    def page(*published: Published) -> str:
        return published_page([Shown(findings.run.suite.model_copy(update={"published": published}), findings)])

    first, *others = findings.run.suite.published
    mended = page(*(each.model_copy(update={"where": "Table 4", "says": "computed"}) for each in (first, *others)))
    assert "Table 4: memory of softmax over linear" in mended
    assert "Older than its bounds" not in mended
    changed = page(first.model_copy(update={"reproduced": Band(at_most=5)}), *others)
    assert "- Older than its bounds: 1 of 3 were written or changed after this run was started." in changed
