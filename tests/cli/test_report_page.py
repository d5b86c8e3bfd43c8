"""`attnbench report`: the page beside the tables, one page of several runs, and what it refuses."""

import subprocess
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.cli.errors import UsageError
from attnbench.cli.report import Options, report
from attnbench.schema.cell import Workload
from attnbench.store.run_folder import StoreError

Run = Callable[..., subprocess.CompletedProcess[str]]
Stored = Callable[..., Path]


@pytest.fixture
def run(stored: Stored, tmp_path: Path) -> Path:
    return stored(tmp_path, "one")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that a browser was asked to show."""
    found: list[str] = []

    def _open(address: str) -> bool:
        found.append(address)
        return True

    monkeypatch.setattr(webbrowser, "open", _open)
    return found


def test_a_run_gets_its_page_beside_its_tables(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(Options((run,)))
    assert (run / "index.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert str(run / "index.html") in capsys.readouterr().out


def test_no_browser_is_started_unless_it_is_asked_for(run: Path, opened: list[str]) -> None:
    report(Options((run,)))
    assert opened == []


def test_the_page_is_shown_on_request(run: Path, opened: list[str]) -> None:
    report(Options((run,), opens=True))
    assert opened == [(run / "index.html").as_uri()]


def test_without_a_browser_the_page_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    report(Options((run,), opens=True))
    assert f"open {run / 'index.html'}" in capsys.readouterr().err


def test_several_runs_are_remade_and_get_a_page_of_their_own(
    run: Path,
    stored: Stored,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = stored(tmp_path, "other")
    monkeypatch.chdir(tmp_path)
    report(Options((run, other), opens=True))
    assert (run / "index.html").exists()
    assert (other / "index.html").exists()
    common = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "made: 2 runs" in common
    assert capsys.readouterr().out.rstrip().endswith("report.html")
    assert opened == [(tmp_path / "report.html").as_uri()]


def test_the_common_page_goes_where_it_is_told_to(run: Path, tmp_path: Path) -> None:
    report(Options((run, run), tmp_path / "new" / "both.html"))
    assert "2 runs" in (tmp_path / "new" / "both.html").read_text(encoding="utf-8")


def test_the_page_of_one_run_may_go_elsewhere_too(run: Path, tmp_path: Path) -> None:
    report(Options((run,), tmp_path / "sent.html"))
    assert (tmp_path / "sent.html").read_text(encoding="utf-8") == (run / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["page.pdf", "page", "html"])
def test_a_page_of_another_form_is_refused_before_anything_is_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"its name must end in \.html"):
        report(Options((tmp_path / "nothing",), tmp_path / name))


def test_a_page_that_cannot_be_written_is_a_clear_error(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--out .*page\.html: "):
        report(Options((run, run), tmp_path / "file" / "page.html"))


def test_what_is_no_run_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nothing is not a run folder"):
        report(Options((tmp_path / "nothing",)))


def test_the_command_takes_several_runs(run: Path, tmp_path: Path, attnbench: Run, plugins: Path) -> None:
    done = attnbench("report", str(run), str(run), "--out", "both.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("both.html")
    assert (tmp_path / "both.html").exists()


def test_the_command_says_what_is_wrong(attnbench: Run, plugins: Path) -> None:
    done = attnbench("report", "nowhere", "--out", "a.txt")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --out a.txt")


def test_making_a_page_needs_no_torch(run: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from attnbench.cli.report import Options, report
report(Options((Path({str(run)!r}),)))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, timeout=120)
    assert Workload.FORWARD.value in (run / "index.html").read_text(encoding="utf-8")
