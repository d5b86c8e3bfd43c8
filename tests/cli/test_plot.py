"""`attnbench plot`: which files it leaves, what it says, and what it refuses."""

import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Pass
from attnbench.schema.problem import Problem
from attnbench.session.asked import split_names
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import InfoOf, Refused, Run, as_record, memory, times

LENGTHS = (512, 1024, 2048)
METHODS: dict[str, dict[str, int]] = {
    "softmax.sdpa": {},
    "linear.chunked": {},
    "lsh.reformer": {"bucket_size": 64, "rounds": 4},
}


def cells() -> list[Cell]:
    return [Cell(method=name, params=dict(params), problem=Problem(N=N)) for N in LENGTHS for name, params in METHODS.items()]


@pytest.fixture
def stored(tmp_path: Path, info_of: InfoOf) -> Path:
    info = info_of(cells())
    folder = RunFolder.create(tmp_path / "results", info)
    for cell in info.cells:
        N = cell.problem.N
        folder.append(as_record(cell, times(1e-6 * N ** (2 if cell.method == "softmax.sdpa" else 1))))
        folder.append(as_record(cell, memory(1000 * N), phase=Pass.MEMORY))
    return folder.path


def test_the_command_draws_what_the_run_can_give_and_says_why_it_cannot_the_rest(stored: Path, command: Run) -> None:
    done = command("plot", stored, "--format", "svg")
    assert done.returncode == 0, done.stderr
    made = {file.name for file in (stored / "figures").iterdir()}
    assert made == {f"{kind}.{form}" for kind in ("scaling", "memory", "ratio", "crossover") for form in ("svg", "txt", "tex")}
    assert [Path(line).name for line in done.stdout.splitlines()] == [
        f"{k}.{f}" for k in ("scaling", "crossover", "ratio", "memory") for f in ("svg", "txt", "tex")
    ]
    said = " ".join(done.stderr.split())
    assert "decode: not drawn: the run decodes nothing" in said
    assert "roofline: not drawn: the run has no roof" in said
    assert "pareto: not drawn: " in said


def test_kind_style_width_format_and_place_are_as_they_are_asked_for(stored: Path, tmp_path: Path, command: Run) -> None:
    out = tmp_path / "deep" / "figures"
    command("plot", stored, "--kind", "scaling", "--style", "web", "--width", "single", "--format", "pgf, svg", "--out", out)
    assert {file.name for file in out.iterdir()} == {"scaling.pgf", "scaling.svg", "scaling.txt", "scaling.tex"}
    assert 'width="360pt"' in (out / "scaling.svg").read_text()


def test_methods_are_chosen_in_their_order_also_with_commas_in_their_brackets(
    stored: Path, tmp_path: Path, command: Run
) -> None:
    names = "lsh.reformer(bucket_size=64, rounds=4),softmax.sdpa"
    command("plot", stored, "--kind", "scaling", "--format", "svg", "--methods", names, "--out", tmp_path)
    drawing = (tmp_path / "scaling.svg").read_text()
    assert "linear.chunked" not in drawing
    assert drawing.index("lsh.reformer") < drawing.index("softmax.sdpa")
    caption = (tmp_path / "scaling.txt").read_text()
    assert "--methods 'lsh.reformer(bucket_size=64, rounds=4),softmax.sdpa'" in caption


def test_names_and_sizes_of_ones_own(stored: Path, command: Run) -> None:
    options = ("--width", "5.5in", "--height", "2.5in", "--label", "softmax.sdpa=FlashAttention", "--no-failures")
    label = ("--label", "lsh.reformer(bucket_size=64, rounds=4)=LSH")
    done = command("plot", stored, "--kind", "scaling", "--format", "svg", *options, *label)
    assert done.returncode == 0, done.stderr
    drawing = (stored / "figures" / "scaling.svg").read_text()
    assert 'width="396pt" height="180pt"' in drawing
    assert "softmax.sdpa" not in drawing
    assert "FlashAttention" in drawing
    assert "LSH" in drawing
    again = (stored / "figures" / "scaling.txt").read_text()
    assert "--width 5.5in --height 2.5in --no-failures --label softmax.sdpa=FlashAttention" in again


def test_the_command_in_a_caption_draws_the_same_figure(stored: Path, command: Run) -> None:
    command("plot", stored, "--kind", "ratio", "--width", "single", "--format", "svg", "--workload", "forward")
    first = (stored / "figures" / "ratio.svg").read_bytes()
    (again,) = [line for line in (stored / "figures" / "ratio.txt").read_text().splitlines() if line.startswith("Drawn by: ")]
    (stored / "figures" / "ratio.svg").unlink()
    assert command(*shlex.split(again.removeprefix("Drawn by: attnbench "))).returncode == 0
    assert (stored / "figures" / "ratio.svg").read_bytes() == first


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--kind", "scalling"), "--kind scalling: did you mean 'scaling'? there are: scaling, "),
        (("--kind", "decode"), "--kind decode: the run decodes nothing"),
        (("--style", "poster"), "--style poster: there are: paper, talk, web"),
        (("--width", "tripple"), "--width tripple: there are: single, double"),
        (("--style", "talk", "--width", "single"), "--width single: a slide has one size"),
        (("--style", "talk", "--height", "3in"), "--height 3in: a slide has one size"),
        (("--height", "99in"), "--height 99in: a figure is 1.5 to 40 inches"),
        (("--label", "softmax.sdpa"), "--label softmax.sdpa: write METHOD=NAME"),
        (("--label", "softmax.spda=Flash"), "--label softmax.spda: did you mean 'softmax.sdpa'?"),
        (("--format", "pdf,eps"), "--format eps: there are: pdf, svg, png, pgf"),
        (("--format", ""), "--format '': there are: pdf"),
        (("--workload", "forwards"), "--workload forwards: did you mean 'forward'?"),
        (("--workload", "decode"), "--workload decode: the run has forward"),
        (("--methods", "linear.chunky"), "--methods linear.chunky: not among the methods; did you mean 'linear.chunked'"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(
    stored: Path, words: tuple[str, ...], says: str, refused: Refused
) -> None:
    assert says in refused("plot", stored, *words)
    assert not (stored / "figures").exists()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.from_regex(r"[a-z]{1,3}(\([a-z]=1(, b=2)?\))?", fullmatch=True), min_size=1))
def test_names_are_split_at_commas_outside_brackets(names: list[str]) -> None:
    assert split_names(",".join(names)) == names
