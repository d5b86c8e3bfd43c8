"""Text as papers and figures have it: tables that the real tool sets in two kinds of paper, names that fit, ticks of axes."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from attnbench.analyze.quantities import Unit
from attnbench.report.drawing import style
from attnbench.report.drawing.ticks import lengths_across, ticks
from attnbench.report.text import latex
from attnbench.report.text.names import ascii_only, drawable, names_of, one_line, short_names, shorten
from attnbench.report.text.table import Table
from attnbench.report.write import write
from tests.report.conftest import Synthetic
from tests.report.drawn import found
from tests.report.papers import ICML, NEURIPS, PACKAGES, compiled

TABLE = Table(
    "Time: forward",
    ("method", "time per sample", "scaled"),
    (("a_b", "1,234.5 ms ±3%", "1.2e-07"), ("[x]", "OOM", ""), ("c", "9.1 ms (-1 +12%)", "-0.3")),
    frozenset({(0, 1), (1, 1)}),
    ("Note_1.",),
)


def test_numbers_are_aligned_by_siunitx_and_what_is_no_number_is_in_braces() -> None:
    text = latex.one_table(TABLE, "x")
    rows = [line.split(" & ") for line in text.splitlines() if line.endswith(r"\\")][1:]
    times = [r"\bfseries 1234.5{\,ms $\pm$\,3\,\%}", r"{\textbf{OOM}}", r"9.1{\,ms $^{+12}_{-1}$\,\%}"]
    assert [row[1] for row in rows] == times
    assert [row[2] for row in rows] == [r"1.2{$\times10^{-7}$} \\", r" \\", r"-0.3{} \\"]
    # a row that begins with a bracket is no option of the line before
    assert "\n{}[x] & " in text


def test_each_table_is_a_file_with_a_caption_and_a_label() -> None:
    files = latex.files([TABLE, TABLE, *(Table(title, ("a",), ()) for title in ("i 2", "<i>", "i"))])
    assert list(files) == ["time-forward.tex", "time-forward-2.tex", "i-2.tex", "i.tex", "i-3.tex"]
    assert r"\caption{Time: forward}\label{tab:time-forward-2}" in files["time-forward-2.tex"]
    assert all(text.startswith(r"% needs \usepackage{booktabs,graphicx,siunitx}") for text in files.values())


def test_a_table_that_is_too_wide_goes_on_below_under_its_first_column() -> None:
    wide = Table("Wide", ("method", *(f"N={i}" for i in range(20))), (("a", *["12.3 ms ±3%"] * 20),))
    text = latex.one_table(wide, "wide")
    assert text.count(r"\begin{tabular}{") == text.count("\na & ") > 1
    assert text.count("12.3{") == 20


@pytest.mark.slow
@pytest.mark.parametrize("paper", [NEURIPS, ICML], ids=["neurips", "icml"])
@pytest.mark.parametrize("replicates", [3, 5])
def test_no_table_of_a_run_is_wider_than_the_paper(tmp_path: Path, replicates: int, paper: str) -> None:
    write(tmp_path, found(Synthetic(replicates=replicates)))
    log = compiled(tmp_path, paper + PACKAGES, r"\input{table.tex}")
    assert re.findall(r"Overfull \\hbox.*", log) == []


# names


@given(st.lists(st.text(), unique=True, max_size=30), st.integers(8, 40))
def test_short_names_fit_on_one_line_and_are_all_different(labels: list[str], width: int) -> None:
    names = short_names(labels, width)
    assert len(set(names.values())) == len(labels)
    assert all(len(name) <= width and name == one_line(name) for name in names.values())
    # also where some are called the same, or as another's own name
    called = names_of({label: labels[number // 2] for number, label in enumerate(labels)}, width)
    assert len(set(called.values())) == len(labels)


def test_what_all_of_a_method_share_goes_first_and_else_the_middle() -> None:
    assert shorten("lsh.reformer_pytorch(rounds=4)", 25) == "lsh.reformer…ch(rounds=4)"
    assert [shorten("abcdef", width) for width in (1, 2, 3)] == ["…", "a…", "a…f"]
    labels = [f"linformer.linformer(k={k}, sharing=layerwise)" for k in (128, 256)]
    one = "lsh.reformer_pytorch(bucket_size=64, rounds=1)"
    names = short_names([*labels, "softmax.naive", one], 40)
    assert [names[label] for label in labels] == ["linformer.linformer(k=128, …)", "linformer.linformer(k=256, …)"]
    assert (names["softmax.naive"], names[one]) == ("softmax.naive", "lsh.reformer_pytorch…_size=64, rounds=1)")
    # no labels of a method
    longer = [f"{label}, N=4k, forward" for label in labels]
    assert short_names(longer, 20)[longer[0]] == "linformer.…, forward"


def test_letters_that_cannot_be_shown_have_a_place_all_the_same() -> None:
    # control characters never reach a terminal or a file
    assert one_line("a\x1b[31m\r\n\tb\u2028c") == "a [31m b c"
    # without Unicode signs have plain letters, and other letters a question mark
    assert ascii_only("1 µs ±3% 2×…中, p ≤ 0.05") == "1 us +-3% 2x~?, p <= 0.05"
    assert latex.escape("p ≤ 0.05, 中") == r"p $\le$ 0.05, [U+4E2D]"
    # what the font lacks becomes a box
    assert drawable("µ…中é") == "µ…□é"


# ticks


@pytest.mark.parametrize(
    ("unit", "low", "high", "words"),
    [
        (Unit.SECONDS, 5e-6, 3, "10 µs, 100 µs, 1 ms, 10 ms, 100 ms, 1 s"),
        # few times at ones, twos and fives
        (Unit.SECONDS, 0.9e-3, 6e-3, "1 ms, 2 ms, 5 ms"),
        (Unit.BYTES, 2**20, 2**32, "1 MiB, 4 MiB, 16 MiB, 64 MiB, 256 MiB, 1 GiB, 4 GiB"),
        (Unit.FACTOR, 0.01, 20, "0.01, 0.1, 1, 10"),
        (Unit.FACTOR, 0.3, 12, "0.5, 1, 2, 5, 10"),
        (Unit.FACTOR, 0.22, 1.5, "0.3, 0.5, 0.7, 1, 1.5"),
        # not around one alone
        (Unit.FACTOR, 0.85, 1.2, "0.9, 1, 1.1"),
    ],
)
def test_an_axis_is_marked_over_its_whole_range_in_steps_of_its_unit(unit: Unit, low: float, high: float, words: str) -> None:
    assert ", ".join(text for _, text in ticks(unit, low, high)) == words


@given(st.floats(1e-9, 1e3), st.floats(4, 1e9))
def test_every_range_has_a_few_ticks_inside(low: float, ratio: float) -> None:
    for unit in (Unit.SECONDS, Unit.BYTES):
        found = ticks(unit, low, low * ratio)
        assert 1 <= len(found) <= 7
        assert all(low <= value <= low * ratio * (1 + 1e-9) for value, _ in found)
        assert len({text for _, text in found}) == len(found)


def test_lengths_that_would_overlap_are_left_out() -> None:
    with style.applied():
        axes = Figure(figsize=(2, 2)).add_subplot()
        lengths_across(axes, [512, 1000, 1024, 2048, 4096])
        words = [label.get_text() for label in axes.get_xticklabels()]
    assert words == ["512", "1000", "2k", "4k"]
