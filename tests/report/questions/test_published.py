"""Printed figures beside ours: the table in its formats, the lines of a terminal, the page of all suites."""

from collections.abc import Callable
from typing import Any

import pytest

from attnbench.analyze.published import Finding, not_run
from attnbench.analyze.published_figures import Figure, Kind
from attnbench.analyze.statistics import Interval, Spread
from attnbench.report.findings import Findings
from attnbench.report.questions.published.page import Shown, published_page
from attnbench.report.questions.published.table import bounds, ours, published_lines, published_tables, table_of
from attnbench.report.tables import tables
from attnbench.report.text.latex import latex
from attnbench.report.text.markdown import one_table
from attnbench.report.text.names import ascii_only
from attnbench.schema.published import Band, Published
from attnbench.schema.suite import ReportSpec
from attnbench.suite.load import load, shipped
from tests.report.conftest import Synthetic

SDPA, CHUNKED, NAIVE = {"method": "softmax.sdpa"}, {"method": "linear.chunked"}, {"method": "softmax.naive"}


def entry(where: str, what: str, comparable: str, **more: Any) -> dict[str, Any]:
    return {"where": where, "what": what, "comparable": comparable, **more}


def asked(metric: str, of: dict[str, str], over: dict[str, str] | None = None, when: str = "") -> dict[str, Any]:
    sides = {name: {**side, "when": when} if when else side for name, side in (("of", of), ("over", over)) if side}
    return {"metric": metric, "workload": "forward", **sides}


FASTER = "linear is faster than softmax at N = 2048"
GRID = {"down": {"N": [512, 1024, 2048, 4096]}, "across": {"causal": [True]}, "numbers": [[1.5], [3], [7], [9]]}
BAND = {"at_least": 1.8, "at_most": 2.2}
ROWS = (
    entry("Figure 1", "softmax's time grows as N^2", "claim", says="slope 2", ours=asked("growth", SDPA), reproduced=BAND),
    entry(
        *("Figure 1", FASTER, "ratio"),
        says="2×",
        ours=asked("throughput", CHUNKED, SDPA, "N == 2048"),
        reproduced={"at_least": 100},
    ),
    entry(
        *("Figure 1", "memory of softmax over linear at N = {N}", "ratio"),
        ours=asked("memory", NAIVE, CHUNKED),
        reproduced={"at_least": 3},
        grid=GRID,
    ),
    entry("Table 3", "error rate", "quality", says="5.12", needs="the licensed corpus"),
    entry("Table 5", "time of N = 1024", "hardware", says="1.5 s", ours=asked("time", SDPA, when="N == 1024")),
)


def of(small: Synthetic, *written: dict[str, Any]) -> Findings:
    """A run whose suite names these figures."""
    run = small.run()
    figures = tuple(Published.model_validate(each, strict=False) for each in written)
    suite = run.suite.model_copy(update={"published": figures, "source": "Someone 2020, arXiv:2001.00001, Figure 1"})
    return Findings.of(run.model_copy(update={"suite": suite}), small.records())


@pytest.fixture
def findings(small: Synthetic) -> Findings:
    """All kinds of rows."""
    return of(small, *ROWS)


def test_each_row_has_what_was_printed_ours_and_what_follows(findings: Findings) -> None:
    (table,) = published_tables(findings)
    assert table.title == "Published and reproduced"
    assert table.headers == ("where", "published", "reproduced", "comparable?", "verdict")
    growth, ratio, *memory, needs, hardware = table.rows
    assert growth[0] == "Figure 1: softmax's time grows as N^2"
    assert growth[2].startswith("N^1.8")
    assert growth[2].endswith("(N = 512 to 2048)")
    assert growth[3:] == ("yes, as a claim", "reproduced (1.8 to 2.2)")
    assert (ratio[1], ratio[4]) == ("2×", "not reproduced (lower bound 100)")
    assert [row[1] for row in memory] == ["1.5×", "3×", "7×", "9×"]
    came = [f"{finding} (lower bound 3)" for finding in ("not reproduced", "reproduced", "cannot tell")]
    assert [row[4] for row in memory] == [*came, "not run"]
    assert needs == ("Table 3: error rate", "5.12", "–", "yes, as quality", "not run")
    assert hardware[2].endswith(" ms]")
    assert hardware[3:] == ("no, other hardware", "")


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


def test_a_failed_cell_stands_in_the_notes_with_its_reason_and_is_never_a_number(findings: Findings) -> None:
    (table,) = published_tables(findings)
    assert table.rows[4][2] == "–"
    assert (
        "cannot tell: Figure 1: memory of softmax over linear at N = 2048: softmax.naive at N=2048: oom_host: memory limit of "
        "17.2 GB reached" in table.notes
    )
    assert "not run: Table 3: error rate: it needs the licensed corpus" in table.notes
    assert any(note.startswith("[a, b]: 95 % t interval over n = 3 replicates") for note in table.notes)


def test_a_bound_on_one_side_is_called_one_and_reproduces_no_value(findings: Findings, small: Synthetic) -> None:
    (table,) = published_tables(findings)
    (note,) = [note for note in table.notes if note.startswith("A lower or an upper bound ")]
    assert note.endswith("by however much: it does not say that the printed value came out here.")
    (two_sided,) = published_tables(of(small, ROWS[0]))
    assert two_sided.rows[0][4] == "reproduced (1.8 to 2.2)"
    assert note not in two_sided.notes


def test_a_computed_ratio_is_told_from_what_was_printed(small: Synthetic) -> None:
    (printed,) = published_tables(of(small, ROWS[1]))
    assert printed.notes[0] == "Published: as printed; n/a where no figure was found, or none was printed."
    (computed,) = published_tables(of(small, ROWS[1], {**ROWS[1], "says": "2×, computed from 1 / 0.5"}))
    assert computed.notes[0] == (
        "Published: as printed, but a ratio with two numbers beside it is computed from these two, which are printed; n/a "
        "where no figure was found, or none was printed."
    )


def test_the_interval_of_a_fit_over_lengths_is_not_called_one_of_replicates(small: Synthetic) -> None:
    (table,) = published_tables(of(small, {**ROWS[0], "ours": asked("memory_growth", CHUNKED)}))
    assert "[a, b] of memory's growth: 95 % t interval of the fit, by how far the lengths lie from its line." in table.notes
    assert not [note for note in table.notes if "replicates" in note]


def test_the_suite_decides_where_among_its_tables_it_stands(small: Synthetic) -> None:
    small.report = ReportSpec(tables=("published", "time"))
    titles = [table.title for table in tables(of(small, *ROWS))]
    assert titles == ["Published and reproduced", "Time per sample: forward, causal, float32"]
    assert [table.title for table in tables(of(small))] == ["Time per sample: forward, causal, float32"]


def test_very_many_figures_are_several_tables(small: Synthetic) -> None:
    grid = {"down": {"row": list(range(60))}, "across": {"k": [1]}, "numbers": [[float(i)] for i in range(60)]}
    found = published_tables(of(small, {**ROWS[3], "grid": grid}))
    assert [table.title for table in found] == [f"Published and reproduced, {i} of 3" for i in (1, 2, 3)]
    assert [len(table.rows) for table in found] == [20, 20, 20]


def test_the_terminal_gets_a_line_for_each_claim_and_counts_for_a_printed_table(findings: Findings) -> None:
    lines = published_lines(findings)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert text.startswith("reproduced      Figure 1: softmax's time grows as N^2: N^1.8")
    assert "not reproduced  Figure 1: linear is faster than softmax at N = 2048: " in text
    whole = " ".join(text.split())
    assert "cannot tell Figure 1: memory of softmax over linear at N = 2048: softmax.naive at N=2048: oom_host: " in whole
    assert "not reproduced Figure 1: memory of softmax over linear at N = 512: 2.00× (lower bound 3)" in whole
    assert "Table 3" not in whole
    assert all(line.startswith((" " * 16, "reproduced", "not ", "cannot tell")) for line in lines)


def test_a_claim_that_could_not_be_read_says_why_on_the_terminal(small: Synthetic) -> None:
    failed = {**ROWS[1], "ours": asked("throughput", CHUNKED, NAIVE, "N == 2048")}
    assert " ".join(" ".join(published_lines(of(small, failed))).split()) == (
        "cannot tell Figure 1: linear is faster than softmax at N = 2048: softmax.naive at N=2048: oom_host: memory limit of "
        "17.2 GB reached (lower bound 100)"
    )


def test_what_a_run_was_not_made_for_is_counted_on_the_terminal_and_not_listed(small: Synthetic) -> None:
    on_a_gpu = {**ROWS[1], "needs": "a GPU", "ours": asked("throughput", SDPA, SDPA, "N == 65536")}
    assert " ".join(" ".join(published_lines(of(small, on_a_gpu, on_a_gpu))).split()) == (
        "not run 2 more, for which this run was not made; table.md says what they need"
    )


@pytest.mark.parametrize("render", [lambda table: one_table(table), lambda table: latex([table])])
def test_words_of_a_suite_are_data_in_every_format(small: Synthetic, render: Callable[..., str]) -> None:
    words = "<b>|a|</b> \\input{x} $y$ \x1b[31m\nz"
    hostile = entry(words, words, "claim", says=words, needs=words)
    (table,) = published_tables(of(small, hostile))
    text = render(table)
    assert "\x1b" not in text
    assert "<b>" not in text
    assert "\\input{" not in text.replace("\\\\input\\{", "")
    assert "\x1b" not in "\n".join(published_lines(of(small, {**hostile, "reproduced": {"at_most": 1}})))


@pytest.mark.parametrize("name", [name for name in shipped() if load(name).suite.published])
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


def test_bounds_are_written_in_words() -> None:
    bands = Band(at_most=0.05), Band(at_least=3), Band(at_least=0.95, at_most=1.05), Band(at_least="printed")
    words = ["upper bound 0.05", "lower bound 3", "0.95 to 1.05", "lower bound 2.5"]
    assert [bounds(*band.ends(2.5)) for band in bands] == words


def test_of_a_printed_table_each_number_may_be_a_bound_of_its_own(small: Synthetic) -> None:
    numbers = {"down": {"N": [512, 1024]}, "across": {"causal": [True]}, "numbers": [[1.5], [100.0]]}
    found = of(small, {**ROWS[2], "reproduced": {"at_least": "printed"}, "grid": numbers})
    (table,) = published_tables(found)
    assert [row[4] for row in table.rows] == ["reproduced (lower bound 1.5)", "not reproduced (lower bound 100)"]
    assert sum(line.startswith("not reproduced") for line in published_lines(found)) == 1
    wide = {**numbers, "numbers": [[100.0], [200.0]]}
    lines = published_lines(of(small, {**ROWS[2], "reproduced": {"at_least": "printed"}, "grid": wide}))
    assert " ".join(line.strip() for line in lines).endswith("2 of 2 figures")


def test_the_page_has_all_suites_in_the_order_of_their_papers_and_counts_them(findings: Findings) -> None:
    suite = findings.run.suite
    later = suite.model_copy(update={"name": "later", "source": "Other 2023, arXiv:2301.00001"})
    nowhere = suite.model_copy(update={"name": "nowhere", "source": "a note"})
    page = published_page([Shown(nowhere, None), Shown(later, None), Shown(suite, findings)])
    headings = [line for line in page.split("\n") if line.startswith("## ")]
    assert headings == [
        "## All figures",
        "## synthetic: Someone 2020, arXiv:2001.00001, Figure 1",
        "## later: Other 2023, arXiv:2301.00001",
        "## nowhere: a note",
    ]
    counts = [[cell.strip() for cell in line.split("|")[2:-1]] for line in page.split("\n") if "| all " in line]
    # figures, then as Finding lists them
    assert [finding.value for finding in Finding] == ["reproduced", "not reproduced", "cannot tell", "not run", ""]
    assert counts == [["24", "2", "2", "1", "18", "1"]]
    assert "no run of it was given; attnbench run later" in page
    assert page.count("run 20260102-030405-abcdef.") == 1
    assert "Older than its bounds" not in page


def test_the_page_begins_with_what_came_of_all_figures_and_of_each_paper(findings: Findings) -> None:
    suite = findings.run.suite
    theirs = tuple(
        each.model_copy(update={"where": where})
        for each, where in zip(
            suite.published, ["Other et al., Table 1", "arXiv:2302.00002, Table 1", *("Table 2",) * 3], strict=True
        )
    )
    source = "arXiv:2301.00001, and Other et al. 2024, arXiv:2401.00003"
    mixed = suite.model_copy(update={"name": "mixed", "published": theirs, "source": source})
    nowhere = suite.model_copy(update={"name": "nowhere", "source": "a note"})
    page = published_page([Shown(nowhere, None), Shown(mixed, findings), Shown(suite, findings)])
    short = page.partition("\n\nWhat the papers printed")[0].split("\n")
    assert short[:2] == ["# Published and reproduced", ""]
    # a grid of four, of which one was not run
    judged = "2 reproduced, 2 not reproduced, 1 cannot tell, 2 not run, 1 shown beside ours and not judged"
    assert short[2] == (
        "**24 printed figures: 4 reproduced, 4 not reproduced, 2 cannot tell, 12 not run, 2 shown beside ours and not judged; "
        "not comparable, being of other hardware: 3.**"
    )
    assert [line.partition(". Not reproduced")[0] for line in short[-5:]] == [
        f"- Someone 2020, arXiv:2001.00001, 8 figures: {judged}; not comparable, being of other hardware: 1",
        "- arXiv:2301.00001, 6 figures: 1 reproduced, 1 not reproduced, 1 cannot tell, 2 not run, 1 shown beside ours and not "
        "judged; not comparable, being of other hardware: 1",
        "- arXiv:2302.00002, 1 figure: 1 not reproduced",
        "- Other et al. 2024, arXiv:2401.00003, 1 figure: 1 reproduced.",
        "- without a paper, 8 figures: 8 not run; not comparable, being of other hardware: 1.",
    ]
    assert f". Not reproduced: Figure 1: {FASTER}, " in short[-5]
    assert "] where 2× is printed; Figure 1: memory of softmax over linear at N = 512, " in short[-5]


def test_bounds_that_came_after_the_run_are_told_and_words_that_were_mended_are_not(findings: Findings) -> None:
    suite = findings.run.suite

    def page(*published: Published) -> str:
        return published_page([Shown(suite.model_copy(update={"published": published}), findings)])

    mended = page(*(each.model_copy(update={"where": "Table 4", "says": "computed"}) for each in suite.published))
    assert "Table 4: memory of softmax over linear" in mended
    assert "Older than its bounds" not in mended
    first, *others = suite.published
    changed = page(first.model_copy(update={"reproduced": Band(at_most=5)}), *others)
    assert "- Older than its bounds: 1 of 3 were written or changed after this run was started." in changed
