"""The door for Python: what `import attnbench` gives, what a run gives, and that nothing is printed or exited."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

import attnbench
from attnbench.library.runs import TABLE_KINDS
from attnbench.schema import errors
from attnbench.schema.errand import Job, Pass
from attnbench.schema.figures import FIGURES
from attnbench.schema.outcome import Failed, Status
from attnbench.session.asked import Only
from attnbench.worker.isolate import Isolation
from tests.cli.conftest import with_high_roofs

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "tests" / "plugins"
SUITE = {
    "name": "mine",
    "axes": {"N": [64, 128], "H": 1, "D": 8, "causal": True},
    "methods": ["softmax.sdpa", "linear.chunked", "linear.full"],
    "budget": {"seconds": 0.1},
    "replicates": 2,
    "report": {"plots": []},
}


class Told(attnbench.Reporter):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.steps: list[tuple[int, int]] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def step(self, doing: str, done: int, total: int, left: str = "") -> None:
        self.steps.append((done, total))


@pytest.fixture
def warmed(warmed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever would start a server asks the one that is warm, and roofs are not measured."""
    with_high_roofs(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


@pytest.fixture(scope="module")
def run(warm: Isolation, told: Told, tmp_path_factory: pytest.TempPathFactory) -> Iterator[attnbench.Run]:
    """A run that was measured from a dict; nobody changes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Isolation, "_request", warm._request)
        yield attnbench.run(SUITE, device="cpu", results=tmp_path_factory.mktemp("results"), reporter=told)


def test_the_door_lists_all_that_it_gives_and_nothing_heavy_is_imported_for_it() -> None:
    assert {"run", "read", "plan", "methods", "compare", "build", "Problem", "Run", "AttnbenchError"} <= set(dir(attnbench))
    assert all(getattr(attnbench, name) is not None for name in dir(attnbench))
    code = (
        "import sys, attnbench; assert not {'numpy', 'pydantic'} & set(sys.modules), 1; attnbench.run, attnbench.trend;"
        "assert not {'torch', 'pandas', 'matplotlib'} & set(sys.modules), 2"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'runs'"):
        _ = attnbench.runs


def test_every_command_is_a_function_of_its_name() -> None:
    from attnbench.cli.measuring import measuring
    from attnbench.cli.reading import reading

    commands = [each.callback.__name__ for app in (measuring, reading) for each in app.registered_commands if each.callback]
    # `report` is a method of a run
    assert set(commands) - {"report", "plot"} <= set(dir(attnbench))
    assert len(commands) == 25


def test_a_run_tells_its_reporter_and_prints_nothing(run: attnbench.Run, told: Told, capfd: pytest.CaptureFixture[str]) -> None:
    assert any(line.startswith("6 cells x 2 replicates on cpu: ") for line in told.said)
    done, total = zip(*told.steps, strict=True)
    assert list(done) == sorted(done)
    assert set(total) == {12}
    assert repr(run) == f"<attnbench.Run {run.path}>"
    assert (run.path / "index.html").exists()
    assert run.info.command == "attnbench run (from Python)"
    assert run.measured
    assert capfd.readouterr() == ("", "")


def test_a_frame_has_a_row_for_each_cell_and_numbers_that_are_numbers(run: attnbench.Run) -> None:
    frame = run.frame()
    assert list(frame.method) == [cell.method for cell in run.info.cells]
    assert frame.set_index("method").status.to_dict() == {
        "softmax.sdpa": "ok",
        "linear.chunked": "ok",
        "linear.full": "unsupported",
    }
    assert frame.time_s.dtype == frame.memory_bytes.dtype == float
    assert frame.N.dtype == int
    assert (frame[frame.status == "ok"].time_s > 0).all()
    table = pd.read_csv(run.path / "table.csv")
    assert list(table.columns) == list(frame.columns)
    assert table.time_s.to_list() == pytest.approx(frame.time_s.to_list(), nan_ok=True)


def test_a_frame_of_replicates_has_a_row_for_each_process_and_one_for_a_failure(run: attnbench.Run) -> None:
    frame, cells = run.frame(replicates=True), run.frame()
    assert frame.groupby("method", sort=False).size().to_dict() == {"softmax.sdpa": 4, "linear.chunked": 4, "linear.full": 2}
    medians = frame.dropna(subset="replicate").groupby("cell").time_s.median()
    ok = cells[cells.status == "ok"].set_index("cell")
    assert medians.to_dict() == pytest.approx(ok.time_s.to_dict())
    times = [r for r in run.records() if r.job.phase is Pass.TIME and r.ok]
    assert len(times) == len(frame.dropna(subset="time_s"))


def test_the_data_dictionary_has_every_column_and_no_other(run: attnbench.Run) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) ?\| ", (ROOT / "docs" / "data.md").read_text(encoding="utf-8"), re.MULTILINE)
    said, quantities = dict(rows), [run.findings.quantities[name] for name in FIGURES]
    assert len(rows) == len(said)
    replicated = [quantity for quantity in quantities if quantity.is_replicated]
    counters = {match[1] for name in run.frame().columns if (match := re.fullmatch(r"(\w+)_source", name))}
    each = {
        "FIGURE_low": [f"{quantity.column}_low" for quantity in replicated],
        "FIGURE_high": [f"{quantity.column}_high" for quantity in replicated],
        "NAME_interval": [f"{quantity.name}_interval" for quantity in replicated],
        "COUNTER_bytes_of_batch": [f"{name.removesuffix('_bytes')}_bytes_of_batch" for name in counters],
        "COUNTER_source": [f"{name}_source" for name in counters],
        "COUNTER_reason": [f"{name}_reason" for name in counters],
    }
    named = {column for name in said for column in each.get(name, [name])}
    assert named == set(run.frame().columns) | {"replicate"}
    assert set(run.frame(replicates=True).columns) <= named
    units = {"%": "share", "B/s": "B/s", "": ""}
    assert {q.column: said[q.column] for q in quantities} == {
        q.column: units.get(q.unit.value, q.unit.value) for q in quantities
    }


def test_a_table_has_every_form(run: attnbench.Run, tmp_path: Path) -> None:
    table = run.table("time")
    assert "linear.chunked" in str(table)
    assert table.markdown().startswith("# mine, run ")
    assert "\\begin{tabular}" in table.latex()
    assert "<table>" in table.html() == table._repr_html_()
    assert list(table.frame().method) == ["softmax.sdpa", "linear.chunked", "linear.full"]
    table.save(tmp_path / "t.md", tmp_path / "t.tex", tmp_path / "t.html")
    assert (tmp_path / "t.md").read_text(encoding="utf-8") == table.markdown()
    for kind in TABLE_KINDS:
        run.table(kind)
    with pytest.raises(attnbench.UsageError, match=r"kind='tiem': did you mean 'time'\?"):
        run.table("tiem")


def test_a_plot_is_a_figure_of_matplotlib_and_shows_itself(run: attnbench.Run, tmp_path: Path) -> None:
    found = run.plot("scaling", method=["softmax.sdpa"])
    assert isinstance(found[0], Figure)
    assert found._repr_html_().startswith('<img src="data:image/png;base64,iVBOR')
    found.save(tmp_path / "s.svg")
    assert (tmp_path / "s.svg").read_bytes().startswith(b"<?xml")
    assert "forward" in found.captions[0]
    with pytest.raises(attnbench.UsageError, match="decodes nothing"):
        run.plot("decode")


def test_a_run_is_shown_in_a_notebook_by_its_result_and_tables(run: attnbench.Run) -> None:
    html = run._repr_html_()
    assert html.startswith("<p>")
    assert "<table>" in html
    assert run.summary() == str(run)


def test_reading_a_run_gives_the_same_and_comparing_it_with_itself_no_difference(run: attnbench.Run) -> None:
    again = attnbench.read(run.path)
    pd.testing.assert_frame_equal(again.frame(), run.frame())
    assert attnbench.read(run) is run
    found = attnbench.compare(again, run, margin=0.3)
    assert {c.ratio.value for c in found.judgement.comparisons if c.ratio} == {1.0}
    assert found.frame().shape[0] == 6
    assert "ABSENT" in str(found)
    within = attnbench.compare(run, baseline="softmax.sdpa")
    assert "methods against softmax.sdpa" in str(within)
    assert set(attnbench.crossover(run).frame().over) == {"softmax.sdpa"}


@pytest.mark.usefixtures("warmed")
def test_a_plan_is_a_frame_too() -> None:
    plan = attnbench.plan(SUITE, device="cpu")
    frame = plan.frame()
    assert list(frame.columns) == ["method", "workload", "N", "B", "causal", "dtype", "least_s_per_call", "note"]
    assert "memory is not predicted" in str(plan)
    assert frame[frame.method == "linear.full"].note.str.startswith("unsupported").all()
    assert "6 cells, 4 to be measured, x 2 replicates, on cpu" in str(plan)
    assert "<table>" in plan._repr_html_()


@pytest.mark.usefixtures("warmed")
def test_a_suite_of_a_million_cells_is_planned_from_some_that_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnbench.library.plan._MOST_ASKED", 90)
    axes = {"N": list(range(1, 1001)), "H": 1, "D": list(range(1, 334)), "causal": True}
    plan = attnbench.plan({**SUITE, "axes": axes}, device="cpu")
    first, second, *_ = plan.summary
    assert first == "estimated from 90 cells, drawn at random from about 999,000"
    assert second == "999,000 cells, 666,000 to be measured, x 2 replicates, on cpu"
    assert [row[1] for row in plan.table.rows] == ["linear.chunked", "linear.full", "softmax.sdpa"]
    assert [row[3:5] for row in plan.table.rows] == [("333,000", "100%"), ("333,000", "0%"), ("333,000", "100%")]
    assert plan.table.rows[1][-1].startswith("unsupported")


@pytest.mark.usefixtures("warmed")
def test_a_run_goes_on_from_python_after_it_was_interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ask, told = Isolation.ask, Told()

    def interrupted(self: Isolation, errand: Any, timeout: float) -> Any:
        if isinstance(errand, Job) and errand.phase is Pass.TIME and errand.replicate == 1:
            # a user's Ctrl-C, or a notebook's stop
            raise KeyboardInterrupt
        return ask(self, errand, timeout)

    suite = {**SUITE, "axes": {**SUITE["axes"], "N": 64}, "methods": ["softmax.sdpa"]}  # type: ignore[dict-item]
    monkeypatch.setattr(Isolation, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        attnbench.run(suite, device="cpu", results=tmp_path, reporter=told)
    monkeypatch.setattr(Isolation, "ask", ask)
    assert "go on with: attnbench run --resume " in told.said[-1]
    folder = Path(told.said[-1].rpartition(" ")[2])
    last = list(attnbench.read(folder).records())[-1]
    assert isinstance(last.outcome, Failed)
    assert last.outcome.status is Status.INTERRUPTED
    assert attnbench.run(resume=folder).frame().n_replicates.to_list() == [2]


@pytest.mark.parametrize(
    "given", [{"replicates": 9}, {"device": "cpu"}, {"impl": "softmax.sdpa"}, {"causal": False}, {"N": 64}]
)
@pytest.mark.parametrize("goes_on", [attnbench.run, attnbench.submit])
def test_a_run_goes_on_as_it_was_begun_and_says_so_where_something_else_is_asked_for(
    goes_on: Callable[..., object], given: dict[str, Any], tmp_path: Path
) -> None:
    if goes_on is attnbench.submit:
        given = {"only": Only(**given)} if {"causal", "N"} & given.keys() else given
    with pytest.raises(attnbench.UsageError, match="a run goes on as it was begun; leave out"):
        goes_on(resume=tmp_path, **given)


def test_what_goes_wrong_is_one_hierarchy_and_never_an_exit() -> None:
    with pytest.raises(attnbench.UsageError, match="did you mean 'quick'"):
        attnbench.run("qick")
    with pytest.raises(attnbench.AttnbenchError, match="is not a run folder"):
        attnbench.read("nowhere")
    with pytest.raises(attnbench.UsageError, match=r"^margin='5x': write a share"):
        attnbench.compare("a", "b", margin="5x")
    with pytest.raises(attnbench.UsageError, match=r"^device='gpu': 'gpu' is not a device"):
        attnbench.run(SUITE, device="gpu")
    with pytest.raises(LookupError, match="did you mean"):
        attnbench.build("softmax.spda", attnbench.Problem(N=8))
    assert {kind.exit_code for kind in _below(attnbench.AttnbenchError)} == {1, 2, 75}
    assert errors.BusyError.exit_code == 75


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def test_a_method_is_built_by_its_class_as_by_its_name() -> None:
    from attnbench.registry import load

    problem = attnbench.Problem(N=16, H=1, D=8, causal=True)
    by_class, by_name = (attnbench.build(method, problem, chunk=8) for method in (load("linear.chunked"), "linear.chunked"))
    assert type(by_class) is type(by_name)
    with pytest.raises(attnbench.UsageError, match="FullLinear: "):
        attnbench.build(load("linear.full"), problem)


@pytest.mark.usefixtures("warmed")
def test_a_class_of_one_s_own_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(PLUGINS))
    from plain import Plain

    suite = {**SUITE, "axes": {"N": 65, "H": 1, "D": 8, "causal": True}, "methods": ["softmax.sdpa"], "replicates": 1}
    found = attnbench.run(suite, impl=Plain, device="cpu", results=tmp_path).frame()
    assert found.set_index("method").status.to_dict() == {"softmax.sdpa": "ok", "plain:Plain": "ok"}


@pytest.mark.slow
def test_the_notebook_of_the_documentation_draws_its_picture_in_ten_lines(tmp_path: Path) -> None:
    script = (ROOT / "docs" / "notebook.py").read_text(encoding="utf-8")
    lines = [line for line in script.splitlines()[1:] if line.strip() and not line.startswith("#")]
    assert len(lines) <= 10
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "per_token.png").read_bytes().startswith(b"\x89PNG")
