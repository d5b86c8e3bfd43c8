"""What holds of every format, as stored for one tiny run; and `attnbench export`: where it writes, what it says and refuses.

RENEW=1 writes the stored files anew after a wanted change.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.analyze.quantities import Quantity
from attnbench.report.exports.exchange import ExportError, Place
from attnbench.report.exports.formats import FORMATS
from tests.cli.conftest import Refused, Run
from tests.report.conftest import Synthetic
from tests.report.exports.conftest import content, folder_of, source_of, write

GOLDEN = Path(__file__).parent / "golden"
TEXTS = [name for name, form in FORMATS.items() if form.text]
SINGLE = [name for name in TEXTS if not FORMATS[name].folder]
NewFigure = Callable[..., Quantity]


@pytest.mark.parametrize("name", TEXTS)
def test_a_format_is_as_stored(name: str, tiny: Synthetic) -> None:
    form, folder = FORMATS[name], GOLDEN / name
    export = form.make([source_of(tiny, day) for day in ((1, 2) if form.many else (1,))])
    export = form.settle(export, Place({}, "../..")) if form.settle else export
    if os.environ.get("RENEW"):
        shutil.rmtree(folder, ignore_errors=True)
        write(export, folder)
    stored = {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert export.files == stored


@pytest.mark.parametrize("name", ["otava", "pyperf", "github-action-benchmark", "bencher"])
def test_a_run_without_any_number_is_refused_with_the_reasons(name: str, hopeless: Synthetic) -> None:
    why = r"has no cell with a (time|number)\n  left out: crashed: softmax.naive at 512: killed by signal 11"
    with pytest.raises(ExportError, match=why):
        FORMATS[name].make([source_of(hopeless)])


@pytest.mark.parametrize("name", [*(name for name in TEXTS if not name.endswith("-bigger")), "parquet"])
def test_a_figure_that_is_added_to_the_vocabulary_is_in_every_file(name: str, tiny: Synthetic, new_figure: NewFigure) -> None:
    new_figure("joules")
    assert any(b"joules" in text for text in FORMATS[name].make([source_of(tiny)]).files.values())


def test_of_a_new_figure_more_of_which_is_better_the_action_has_its_own_list(tiny: Synthetic, new_figure: NewFigure) -> None:
    new_figure("samples_per_joule", more_is_better=True)
    bigger, smaller = (content(FORMATS[f"github-action-benchmark{end}"].make([source_of(tiny)])) for end in ("-bigger", ""))
    assert {each["value"] for each in bigger if each["name"].endswith("/samples_per_joule")} == {1.5}
    assert not [each for each in smaller if "joule" in each["name"]]


# the command


@pytest.fixture
def run(tiny: Synthetic, tmp_path: Path) -> Path:
    return folder_of(tmp_path / "run", tiny)


@pytest.fixture
def later(tiny: Synthetic, tmp_path: Path) -> Path:
    return folder_of(tmp_path / "later", tiny, day=2)


@pytest.mark.parametrize("to", TEXTS)
def test_without_a_place_it_goes_into_the_run_s_folder(to: str, run: Path, command: Run) -> None:
    before = set(run.rglob("*"))
    said = command("export", run, "--to", to)
    new = {file for file in set(run.rglob("*")) - before if file.is_file()}
    assert {Path(line) for line in said.stdout.splitlines()} == new
    assert all(file.is_relative_to(run / FORMATS[to].file) for file in new)
    assert "OOM: softmax.naive at 1k: memory limit of 17.2 GB reached" in said.stderr


@pytest.mark.parametrize("to", SINGLE)
def test_a_text_goes_to_stdout_and_nothing_else_does(to: str, run: Path, tmp_path: Path, command: Run) -> None:
    printed = command("export", run, "--to", to, "--out", "-").stdout
    command("export", run, "--to", to, "--out", tmp_path / "file")
    assert printed == (tmp_path / "file").read_text()
    json.loads(printed)
    assert {file.name for file in run.iterdir()} == {"run.json", "records.jsonl"}


def test_an_asv_folder_finds_a_repository_keeps_settings_and_runs(run: Path, later: Path, tmp_path: Path, command: Run) -> None:
    (tmp_path / ".git").mkdir()
    out = tmp_path / "a" / "asv"
    command("export", run, "--to", "asv", "--out", out)
    settings = json.loads((out / "asv.conf.json").read_text())
    assert settings["repo"] == "../.."
    (out / "asv.conf.json").write_text(json.dumps({**settings, "project": "mine"}))
    again = command("export", run, later, "--to", "asv", "--out", out)
    assert json.loads((out / "asv.conf.json").read_text())["project"] == "mine"
    assert len(list(out.glob("results/*/*-python*.json"))) == 2
    assert "repository" not in again.stderr


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("pyprf", "--to pyprf: did you mean 'pyperf'? there are: pytest-benchmark, asv, otava, pyperf,"),
        ("junit", "--to junit: there are: pytest-benchmark"),
        ("asv", "--out -: asv is a folder; name a path"),
        ("otava", "--out -: otava is a folder; name a path"),
        ("parquet", "--out -: parquet is no text; name a path"),
    ],
)
def test_an_unknown_format_is_refused_and_what_is_no_text_at_stdout(to: str, words: str, run: Path, refused: Refused) -> None:
    assert words in refused("export", run, "--to", to, "--out", "-")


@pytest.mark.parametrize("to", SINGLE)
def test_a_format_of_one_run_refuses_several(to: str, run: Path, later: Path, tmp_path: Path, refused: Refused) -> None:
    words = refused("export", run, later, "--to", to, "--out", tmp_path / "x")
    assert words == f"--to {to}: it holds one run, and 2 are named; several can be in: asv, otava, parquet"


def test_several_runs_need_a_place_and_no_copies(
    run: Path, later: Path, tmp_path: Path, tiny: Synthetic, refused: Refused
) -> None:
    assert refused("export", run, later, "--to", "otava") == "several runs: say by --out where the export goes"
    for again in (run, folder_of(tmp_path / "copy", tiny)):
        assert "are one run (20260101-030405-abcdef)" in refused("export", run, again, "--to", "asv", "--out", tmp_path / "x")


def test_what_cannot_be_written_is_told_and_a_foreign_folder_stays(run: Path, tmp_path: Path, refused: Refused) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert "Not a directory" in refused("export", run, "--to", "asv", "--out", file / "asv")
    assert f"{file} is no folder" in refused("export", run, "--to", "pyperf", "--out", file / "x.json")
    assert "s a directory" in refused("export", run, "--to", "pyperf", "--out", tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "benchmarks.json").write_text("mine")
    assert "--to asv: results/benchmarks.json is there already" in refused("export", run, "--to", "asv", "--out", tmp_path)
    assert (tmp_path / "results" / "benchmarks.json").read_text() == "mine"
