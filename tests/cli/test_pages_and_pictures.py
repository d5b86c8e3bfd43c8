"""`attnbench report`, `plot` and `show`: which pages and pictures they leave, and what they say."""

import shlex
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import attnbench as door
from attnbench import registry
from attnbench.schema.cell import Workload
from attnbench.schema.noun import Scalar
from tests.cli.conftest import Refused, Run, Stored, fine, keep
from tests.report.conftest import Law, Synthetic


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that a browser was asked to show, of which it takes none."""
    found: list[str] = []
    monkeypatch.setattr(webbrowser, "open", found.append)
    return found


def test_a_run_gets_its_page_and_shows_it_on_request(stored: Stored, opened: list[str], tmp_path: Path, command: Run) -> None:
    run = stored(tmp_path, "one")
    done = command("report", run)
    page = (run / "index.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert str(run / "index.html") in done.stdout
    command("report", run, "--out", tmp_path / "sent.html")
    assert (tmp_path / "sent.html").read_text(encoding="utf-8") == page
    assert opened == []
    # no browser takes it
    assert f"open {run / 'index.html'}" in command("report", run, "--open").stderr
    assert opened == [(run / "index.html").as_uri()]


def test_several_runs_are_remade_and_get_a_page_of_their_own(
    stored: Stored, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Run, refused: Refused
) -> None:
    runs = [stored(tmp_path, name) for name in ("one", "other")]
    monkeypatch.chdir(tmp_path)
    done = command("report", *runs, "--open")
    assert all((run / "index.html").exists() for run in runs)
    assert "made: 2 runs" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert done.stdout.rstrip().endswith("report.html")
    assert opened == [(tmp_path / "report.html").as_uri()]
    command("report", *runs, "--out", tmp_path / "new" / "both.html")
    assert "2 runs" in (tmp_path / "new" / "both.html").read_text(encoding="utf-8")
    assert "are one run" in refused("report", runs[0], runs[0])


HASHING: dict[str, Scalar] = {"bucket_size": 64, "rounds": 4}


@pytest.fixture
def plotted(tmp_path: Path) -> Path:
    """A run of three methods, one of them with parameters, in time and memory, on a machine whose roof nobody measured."""
    laws = (Law("softmax.sdpa", 1.0, 2.0), Law("linear.chunked", 1e-3, 1.0), Law("lsh.reformer", 2e-3, 1.0, HASHING))
    made = Synthetic(laws, (512, 1024, 2048), (False,), (Workload.FORWARD,), replicates=1)
    bare = made.run().surroundings.model_copy(update={"roof": {}})
    return keep(tmp_path / "run", made.run().model_copy(update={"surroundings": bare}), made.records())


def test_plot_draws_what_the_run_can_give_and_says_why_it_cannot_the_rest(plotted: Path, command: Run) -> None:
    done = fine(command("plot", plotted, "--format", "svg"))
    names = [f"{kind}.{form}" for kind in ("scaling", "crossover", "ratio", "memory") for form in ("svg", "txt", "tex")]
    assert [Path(line).name for line in done.stdout.splitlines()] == names
    assert {file.name for file in (plotted / "figures").iterdir()} == set(names)
    said = " ".join(done.stderr.split())
    assert "decode: not drawn: the run decodes nothing" in said
    assert "roofline: not drawn: the run has no roof" in said
    assert "pareto: not drawn: " in said


def test_a_figure_is_as_asked_for_and_its_caption_draws_it_again(plotted: Path, tmp_path: Path, command: Run) -> None:
    out = tmp_path / "deep" / "figures"
    hashing = "lsh.reformer(bucket_size=64, rounds=4)"
    options = ["--methods", f"{hashing},softmax.sdpa", "--width", "5.5in", "--height", "2.5in", "--no-failures"]
    labels = ["--label", "softmax.sdpa=FlashAttention", "--label", f"{hashing}=LSH"]
    fine(command("plot", plotted, "--kind", "scaling", "--format", "pgf, svg", *options, *labels, "--out", out))
    assert {file.name for file in out.iterdir()} == {"scaling.pgf", "scaling.svg", "scaling.txt", "scaling.tex"}
    drawing = (out / "scaling.svg").read_text()
    assert 'width="396pt" height="180pt"' in drawing
    assert drawing.index("LSH") < drawing.index("FlashAttention")
    assert "softmax.sdpa" not in drawing
    assert "linear.chunked" not in drawing
    (again,) = [line for line in (out / "scaling.txt").read_text().splitlines() if line.startswith("Drawn by: attnbench ")]
    for file in (out / "scaling.svg", out / "scaling.pgf"):
        file.unlink()
    command(*shlex.split(again.removeprefix("Drawn by: attnbench ")), "--out", out)
    assert (out / "scaling.svg").read_text() == drawing
    assert (out / "scaling.pgf").is_file()
    command("plot", plotted, "--kind", "scaling", "--format", "svg", "--style", "web", "--width", "single", "--out", out)
    assert 'width="360pt"' in (out / "scaling.svg").read_text()


def drawn(method: str, **changes: Any) -> bytes:
    return door.show(method, **{"N": 16, "heads": 2, "width": 8, **changes}).image("svg")


def test_show_draws_and_says_where(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = fine(run("show", "linear.chunked", "--N", "32", "--heads", "2", "--param", "chunk=8"))
    assert done.stdout == "linear.chunked.png\n"
    with Image.open(tmp_path / "linear.chunked.png") as opened:
        assert opened.width > 600


def test_what_is_shown_depends_on_the_seed_alone() -> None:
    params = {"feature_map": "favor", "features": 8}
    first, again, other = (drawn("linear.chunked", param=params, seed=seed) for seed in (0, 0, 1))
    assert first == again != other


def test_a_picture_is_causal_where_the_method_can_and_nothing_else_was_asked() -> None:
    assert b"; non-causal" not in drawn("softmax.naive")
    assert drawn("softmax.naive") == drawn("softmax.naive", causal=True)
    assert drawn("softmax.naive") != drawn("softmax.naive", causal=False)
    assert drawn("linear.full") == drawn("linear.full", causal=False)


def test_a_picture_says_which_parameters_nobody_gave() -> None:
    # four heads, so that the line has room
    svg = drawn("sparse.strided", param={"mode": "per_head"}, heads=4)
    assert b"by default layer=0, convention=paper; left to the method:" in svg
    assert b"left to the method" not in drawn("sparse.strided", param={"mode": "per_head", "stride": 4}, heads=4)


def test_a_class_is_drawn_as_its_name_is() -> None:
    by_class, by_name = (door.show(method, N=16).picture for method in (registry.load("softmax.naive"), "softmax.naive"))
    assert (by_class.weights == by_name.weights).all()
    assert (by_class.title, by_class.about) == ("NaiveSoftmax", by_name.about)
