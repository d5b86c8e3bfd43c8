"""The door for Python: what `import attnbench` gives, what a run gives, and that nothing is printed or exited."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

import attnbench
from attnbench.library.runs import TABLE_KINDS
from attnbench.registry import load as load_method
from attnbench.schema.errand import Job, Pass
from attnbench.schema.figures import FIGURES
from attnbench.schema.outcome import Failed, Status
from attnbench.session.asked import Only
from attnbench.suite.load import load, shipped
from attnbench.worker.isolate import Isolation
from tests.conftest import PLUGINS
from tests.library.conftest import REFERENCE

ROOT = Path(__file__).parents[2]
SMALL = {"N": 64, "H": 1, "D": 8, "causal": True}
SUITE = {
    **{"name": "mine", "axes": {**SMALL, "N": [64, 128]}, "budget": {"seconds": 0.1}, "replicates": 2},
    **{"methods": ["softmax.sdpa", "linear.chunked", "linear.full"], "report": {"plots": []}},
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


@pytest.fixture(scope="module")
def told() -> Told:
    return Told()


@pytest.fixture(scope="module")
def run(warm: Isolation, told: Told, tmp_path_factory: pytest.TempPathFactory) -> Iterator[attnbench.Run]:
    """A run that was measured from a dict; nobody changes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Isolation, "_request", warm._request)
        yield attnbench.run(SUITE, device="cpu", results=tmp_path_factory.mktemp("results"), reporter=told)


def test_the_door_has_a_function_for_every_command_and_nothing_heavy_is_imported_for_it() -> None:
    from attnbench.cli.measuring import measuring
    from attnbench.cli.reading import reading

    commands = [each.callback.__name__ for app in (measuring, reading) for each in app.registered_commands if each.callback]
    assert len(commands) == 25
    # `report` is a method of a run
    others = {"build", "Problem", "Run", "AttnbenchError"}
    assert (set(commands) - {"report", "plot"}) | others <= set(dir(attnbench))
    assert all(getattr(attnbench, name) is not None for name in dir(attnbench))
    code = (
        "import sys, attnbench; assert not {'numpy', 'pydantic'} & set(sys.modules), 1; attnbench.run, attnbench.trend;"
        "assert not {'torch', 'pandas', 'matplotlib'} & set(sys.modules), 2"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'runs'"):
        _ = attnbench.runs


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


def test_a_frame_has_a_row_for_each_cell_or_replicate_and_numbers_that_are_numbers(run: attnbench.Run) -> None:
    frame, each = run.frame(), run.frame(replicates=True)
    ok = frame[frame.status == "ok"]
    statuses = {"softmax.sdpa": "ok", "linear.chunked": "ok", "linear.full": "unsupported"}
    assert list(frame.method) == [cell.method for cell in run.info.cells]
    assert frame.set_index("method").status.to_dict() == statuses
    assert frame.time_s.dtype == frame.memory_bytes.dtype == float
    assert frame.N.dtype == int
    assert (ok.time_s > 0).all()
    table = pd.read_csv(run.path / "table.csv")
    assert list(table.columns) == list(frame.columns)
    assert table.time_s.to_list() == pytest.approx(frame.time_s.to_list(), nan_ok=True)
    # a replicate is a process, and a failure has one row
    assert each.groupby("method", sort=False).size().to_dict() == {"softmax.sdpa": 4, "linear.chunked": 4, "linear.full": 2}
    medians = each.dropna(subset="replicate").groupby("cell").time_s.median()
    assert medians.to_dict() == pytest.approx(ok.set_index("cell").time_s.to_dict())
    assert len([r for r in run.records() if r.job.phase is Pass.TIME and r.ok]) == len(each.dropna(subset="time_s"))
    frame["mine"] = 1  # of a frame in many pieces pandas would warn


def test_the_data_dictionary_has_every_column_and_no_other(run: attnbench.Run) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) ?\| ", (ROOT / "docs" / "data.md").read_text(encoding="utf-8"), re.MULTILINE)
    said, quantities = dict(rows), [run.findings.quantities[name] for name in FIGURES]
    assert len(rows) == len(said)
    replicated = [quantity for quantity in quantities if quantity.is_replicated]
    counters = [match[1] for name in run.frame().columns if (match := re.fullmatch(r"(\w+)_source", name))]
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
    assert {q.column: said[q.column] for q in quantities} == {q.column: q.unit.value for q in quantities}


def test_a_table_has_every_form(run: attnbench.Run, tmp_path: Path) -> None:
    table = run.table("time")
    assert "linear.chunked" in str(table)
    assert table.markdown().startswith("# mine, run ")
    assert "\\begin{tabular}" in table.latex()
    assert "<table>" in table.html() == table._repr_html_()
    assert list(table.frame().method) == ["softmax.sdpa", "linear.chunked", "linear.full"]
    table.save(tmp_path / "t.md", tmp_path / "t.tex", tmp_path / "t.html")
    assert (tmp_path / "t.md").read_text(encoding="utf-8") == table.markdown()
    with pytest.raises(attnbench.UsageError, match=r"form='xls': there are: md, tex, csv, html$"):
        table.save(tmp_path / "t.xls")
    for kind in TABLE_KINDS:
        run.table(kind)
    with pytest.raises(attnbench.UsageError, match=r"kind='tiem': did you mean 'time'\?"):
        run.table("tiem")


def test_a_run_and_its_plots_show_themselves_in_a_notebook(run: attnbench.Run, tmp_path: Path) -> None:
    assert re.match("<p>.*<table>", run._repr_html_(), re.DOTALL)
    assert run.summary() == str(run)
    # one word is taken as a list of one
    found = run.plot("scaling", workload="forward", method="softmax.sdpa")
    assert {"scaling.svg", "scaling.txt"} <= run.draw("scaling", format="svg").keys()
    assert isinstance(found[0], Figure)
    assert found._repr_html_().startswith('<img src="data:image/png;base64,iVBOR')
    found.save(tmp_path / "s.svg")
    with pytest.raises(attnbench.UsageError, match="form='xls': there are: png, svg, pdf"):
        found.save(tmp_path / "s.xls")
    with pytest.raises(attnbench.UsageError, match="there are 1 figures; name a file for each"):
        found.save(tmp_path / "s.svg", tmp_path / "t.svg")
    assert (tmp_path / "s.svg").read_bytes().startswith(b"<?xml")
    assert "forward" in found.captions[0]
    with pytest.raises(attnbench.UsageError, match="decodes nothing"):
        run.plot("decode")


def test_reading_a_run_gives_the_same_and_comparing_it_with_itself_no_difference(run: attnbench.Run) -> None:
    again = attnbench.read(run.path)
    pd.testing.assert_frame_equal(again.frame(), run.frame())
    assert attnbench.read(run) is run
    found = attnbench.compare(again, run, margin=0.3)
    assert {c.ratio.value for c in found.judgement.comparisons if c.ratio} == {1.0}
    assert found.frame().shape[0] == 6
    assert "ABSENT" in str(found)
    assert "methods against softmax.sdpa" in str(attnbench.compare(run, baseline="softmax.sdpa"))
    assert set(attnbench.crossover(run).frame().over) == {"softmax.sdpa"}


def test_methods_are_compared_over_length_by_every_figure_that_the_run_has_also_where_it_is_0() -> None:
    run = attnbench.read(REFERENCE.parent / "epyc-avx512-2-cores" / "numerics")

    def said(metric: str) -> str:
        return " ".join(str(attnbench.crossover(run, metric=metric, of="linear.chunked")).split())

    assert "softmax.sdpa stays ahead of linear.chunked, forward, causal, float32" in said("flops")
    exact = said("run_difference")
    assert "there is no length at which both linear.chunked and softmax.sdpa have a figure above 0, numerics" in exact
    assert "neither has a figure above 0 (linear.chunked: not above 0; softmax.sdpa: not above 0)" in exact


@pytest.mark.usefixtures("roofed")
def test_a_run_goes_on_from_python_after_it_was_interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ask, told = Isolation.ask, Told()

    def interrupted(self: Isolation, errand: Any, timeout: float) -> Any:
        if isinstance(errand, Job) and errand.phase is Pass.TIME and errand.replicate == 1:
            # a user's Ctrl-C, or a notebook's stop
            raise KeyboardInterrupt
        return ask(self, errand, timeout)

    suite = {**SUITE, "axes": SMALL, "methods": ["softmax.sdpa"]}
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


@pytest.mark.parametrize("given", [{"replicates": 9}, {"device": "cpu"}, {"impl": "a:B"}, {"causal": False}, {"results": "x"}])
def test_a_run_goes_on_as_it_was_begun(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(attnbench.UsageError, match="a run goes on as it was begun; leave out"):
        attnbench.run(resume=tmp_path, **given)
    with pytest.raises(attnbench.UsageError, match="a run goes on as it was begun; leave out"):
        attnbench.submit(resume=tmp_path, **({"only": Only(**given)} if "causal" in given else given))


def test_what_goes_wrong_is_one_hierarchy_and_never_an_exit() -> None:
    with pytest.raises(attnbench.UsageError, match="did you mean 'quick'"):
        attnbench.run("qick")
    with pytest.raises(attnbench.UsageError, match="width=0: input should be greater than"):
        attnbench.check("softmax.sdpa", width=0)
    with pytest.raises(attnbench.AttnbenchError, match="is not a run folder"):
        attnbench.read("nowhere")
    with pytest.raises(attnbench.UsageError, match=r"^margin='5x': write a share"):
        attnbench.compare("a", "b", margin="5x")
    with pytest.raises(attnbench.UsageError, match=r"^device='gpu': 'gpu' is not a device"):
        attnbench.run(SUITE, device="gpu")
    with pytest.raises(attnbench.UsageError, match=r"^replicates=0: must be 1 or more"):
        attnbench.crossover(SUITE, measure=True, replicates=0)
    with pytest.raises(attnbench.UsageError, match=r"^array=0: must be 1 or more"):
        attnbench.submit(SUITE, array=0)
    with pytest.raises(attnbench.UsageError, match=r"^method='linear\.chunky': no such method"):
        attnbench.maxlen("quick", method="linear.chunky")
    with pytest.raises(LookupError, match="did you mean"):
        attnbench.build("softmax.spda", attnbench.Problem(N=8))
    with pytest.raises(attnbench.UsageError, match="selfcheck takes no impl; what it measures says that by itself"):
        attnbench.selfcheck(impl="plain:Plain")
    with pytest.raises(attnbench.UsageError, match="holds no run"):
        attnbench.trend(Path(__file__).parent)


@pytest.mark.usefixtures("roofed")
def test_a_class_is_built_and_measured_as_a_method_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    problem = attnbench.Problem(N=16, H=1, D=8, causal=True)
    by_class, by_name = (attnbench.build(one, problem, chunk=8) for one in (load_method("linear.chunked"), "linear.chunked"))
    assert type(by_class) is type(by_name)
    with pytest.raises(attnbench.UsageError, match="FullLinear: "):
        attnbench.build(load_method("linear.full"), problem)
    monkeypatch.syspath_prepend(str(PLUGINS))
    from plain import Plain

    suite = {**SUITE, "axes": {**SMALL, "N": 65}, "methods": ["softmax.sdpa"], "replicates": 1}
    found = attnbench.run(suite, impl=Plain, device="cpu", results=tmp_path).frame()
    assert found.set_index("method").status.to_dict() == {"softmax.sdpa": "ok", "plain:Plain": "ok"}


def test_suites_say_what_they_are_for_and_a_copy_overwrites_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = attnbench.suites()
    assert found.keys() == shipped().keys()
    assert all(about[0].isupper() and about.endswith((".", "?", ")")) and "#" not in about for about in found.values())
    monkeypatch.chdir(tmp_path)
    copy = attnbench.copy_suite("quick")
    assert copy == Path("quick.yaml")
    assert load("quick.yaml").suite == load(shipped()["quick"]).suite
    copy.write_text("mine")
    with pytest.raises(attnbench.UsageError, match=r"quick\.yaml is there already, and is not overwritten"):
        attnbench.copy_suite("quick")
    assert copy.read_text() == "mine"
    assert attnbench.copy_suite("quick", tmp_path / "b.yaml").is_file()
    with pytest.raises(attnbench.UsageError, match=r"b\.yaml cannot be written: No such file"):
        attnbench.copy_suite("quick", tmp_path / "none" / "b.yaml")
    with pytest.raises(attnbench.UsageError, match="did you mean 'quick'"):
        attnbench.copy_suite("quikc")


@pytest.mark.slow
def test_methods_are_listed_by_pattern_family_and_what_is_installed() -> None:
    assert list(attnbench.methods("softmax.s*")) == sorted(attnbench.methods("softmax.s*", family="softmax"))
    assert {name.partition(".")[0] for name in attnbench.methods(family="vq")} == {"vq"}
    every, there = attnbench.methods("linear.*"), attnbench.methods("linear.*", available=True)
    assert "linear.performer_pytorch" in every
    assert "linear.performer_pytorch" not in there
    assert "linear.chunked" in there
    with pytest.raises(attnbench.UsageError, match="did you mean 'linear'"):
        attnbench.methods(family="liner")
    with pytest.raises(attnbench.UsageError, match=r"no method 'linear\.chunky'"):
        attnbench.methods("linear.chunky")


@pytest.mark.slow
def test_the_notebook_of_the_documentation_draws_its_picture_in_ten_lines(tmp_path: Path) -> None:
    script = (ROOT / "docs" / "notebook.py").read_text(encoding="utf-8")
    lines = [line for line in script.splitlines()[1:] if line.strip() and not line.startswith("#")]
    assert len(lines) <= 10
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "per_token.png").read_bytes().startswith(b"\x89PNG")
