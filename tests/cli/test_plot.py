"""`attnbench plot`: which files it leaves, what it says, and what it refuses."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from attnbench.cli import plot as module
from attnbench.cli.app import app
from attnbench.cli.errors import UsageError
from attnbench.cli.plot import Options, plot
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass, Surroundings
from attnbench.schema.outcome import Counter, Measured, Series
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Method, Suite
from attnbench.store.run_folder import RunFolder, StoreError

Run = Callable[..., subprocess.CompletedProcess[str]]

LENGTHS = (512, 1024, 2048)
METHODS: dict[str, dict[str, int]] = {
    "softmax.sdpa": {},
    "linear.chunked": {},
    "lsh.reformer": {"bucket_size": 64, "rounds": 4},
}


def cells() -> list[Cell]:
    return [Cell(method=name, params=dict(params), problem=Problem(N=N)) for N in LENGTHS for name, params in METHODS.items()]


def record(cell: Cell, phase: Pass) -> Record:
    seconds = 1e-6 * cell.problem.N ** (2 if cell.method == "softmax.sdpa" else 1)
    outcome = Measured(samples={"time": Series(unit="s", values=(seconds,))})
    if phase is Pass.MEMORY:
        outcome = Measured(memory={"host_rss_peak": Counter(bytes=1000 * cell.problem.N, source="VmHWM")})
    return Record(job=Job(cell=cell, phase=phase), outcome=outcome, environment="e", started="2026-01-02T03:04:05+00:00")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    info = RunInfo(
        id="x", command="attnbench run t", started="", environment={}, environment_digest="e", methods={}, cells=tuple(cells()),
        suite=Suite(name="t", axes=Axes(N=LENGTHS), methods=tuple(Method(name=name) for name in METHODS), replicates=1),
        surroundings=Surroundings(device="cpu", facts={}, memory_bytes=2**30, roof={}),
    )  # fmt: skip
    folder = RunFolder.create(tmp_path / "results", info)
    for cell in info.cells:
        for phase in (Pass.TIME, Pass.MEMORY):
            folder.append(record(cell, phase))
    return folder.path


def refused(options: Options) -> str:
    with pytest.raises(UsageError) as error:
        plot(options)
    return str(error.value)


def test_the_command_draws_what_the_run_can_give_and_says_why_it_cannot_the_rest(stored: Path, attnbench: Run) -> None:
    done = attnbench("plot", str(stored), "--format", "svg")
    assert done.returncode == 0, done.stderr
    made = {file.name for file in (stored / "figures").iterdir()}
    assert made == {f"{kind}.{form}" for kind in ("scaling", "memory", "ratio", "crossover") for form in ("svg", "txt")}
    assert [Path(line).name for line in done.stdout.splitlines()] == [
        f"{k}.{f}" for k in ("scaling", "memory", "crossover", "ratio") for f in ("svg", "txt")
    ]
    said = " ".join(done.stderr.split())
    assert "decode: not drawn: the run decodes nothing" in said
    assert "roofline: not drawn: the run has no roof" in said
    assert "pareto: not drawn: " in said


def test_kind_style_width_format_and_place_are_as_they_are_asked_for(stored: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "figures"
    plot(Options(stored, ("scaling",), "web", "single", "pgf, svg", out=out))
    assert {file.name for file in out.iterdir()} == {"scaling.pgf", "scaling.svg", "scaling.txt"}
    assert 'width="360pt"' in (out / "scaling.svg").read_text()


def test_methods_are_chosen_in_their_order_also_with_commas_in_their_brackets(stored: Path, tmp_path: Path) -> None:
    plot(
        Options(
            stored, ("scaling",), formats="svg", methods=("lsh.reformer(bucket_size=64, rounds=4),softmax.sdpa",), out=tmp_path
        )
    )
    drawing = (tmp_path / "scaling.svg").read_text()
    assert "linear.chunked" not in drawing
    assert drawing.index("lsh.reformer") < drawing.index("softmax.sdpa")
    caption = (tmp_path / "scaling.txt").read_text()
    assert "--methods 'lsh.reformer(bucket_size=64, rounds=4),softmax.sdpa'" in caption


def test_the_command_in_a_caption_draws_the_same_figure(stored: Path) -> None:
    plot(Options(stored, ("ratio",), width="single", formats="svg", workloads=("forward",)))
    first = (stored / "figures" / "ratio.svg").read_bytes()
    (again,) = [line for line in (stored / "figures" / "ratio.txt").read_text().splitlines() if line.startswith("Drawn by: ")]
    (stored / "figures" / "ratio.svg").unlink()
    command = CliRunner().invoke(app, shlex.split(again.removeprefix("Drawn by: attnbench ")))
    assert command.exit_code == 0, command.output
    assert (stored / "figures" / "ratio.svg").read_bytes() == first


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kinds": ("scalling",)}, "--kind scalling: did you mean 'scaling'? there are: scaling, memory,"),
        ({"kinds": ("decode",)}, "--kind decode: the run decodes nothing"),
        ({"style": "poster"}, "--style poster: there are: paper, talk, web"),
        ({"width": "tripple"}, "--width tripple: there are: single, double"),
        ({"style": "talk", "width": "single"}, "--width single: a slide has one width"),
        ({"formats": "pdf,eps"}, "--format eps: there are: pdf, svg, png, pgf"),
        ({"formats": ""}, "--format '': there are: pdf"),
        ({"workloads": ("forwards",)}, "--workload forwards: did you mean 'forward'?"),
        ({"workloads": ("decode",)}, "--workload decode: the run has forward"),
        ({"methods": ("linear.chunky",)}, "did you mean 'linear.chunked'"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(stored: Path, changes: dict[str, object], words: str) -> None:
    assert words in refused(Options(stored, **changes))  # type: ignore[arg-type]
    assert not (stored / "figures").exists()


def test_a_place_that_cannot_be_written_is_told(stored: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    assert "taken: " in refused(Options(stored, ("scaling",), formats="svg", out=tmp_path / "taken"))


def test_a_folder_that_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run folder"):
        plot(Options(tmp_path))


def test_no_torch_is_needed_to_draw(stored: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom attnbench.cli.plot import Options, plot\n"
        f"plot(Options(Path({str(stored)!r}), ('scaling',), formats='svg'))\nassert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@settings(deadline=None)
@given(st.lists(st.from_regex(r"[a-z]{1,3}(\([a-z]=1(, b=2)?\))?", fullmatch=True), min_size=1))
def test_names_are_split_at_commas_outside_brackets(names: list[str]) -> None:
    assert module._split(",".join(names)) == names
