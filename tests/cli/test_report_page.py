"""`attnbench report`: the page beside the tables, one page of several runs, and what it refuses."""

import webbrowser
from pathlib import Path

import pytest

from tests.cli.conftest import Refused, Run, Stored


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


def test_a_run_gets_its_page_beside_its_tables(run: Path, command: Run) -> None:
    done = command("report", run)
    assert (run / "index.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert str(run / "index.html") in done.stdout


def test_the_page_is_shown_on_request_alone(run: Path, opened: list[str], command: Run) -> None:
    command("report", run)
    assert opened == []
    command("report", run, "--open")
    assert opened == [(run / "index.html").as_uri()]


def test_without_a_browser_the_page_is_named(run: Path, monkeypatch: pytest.MonkeyPatch, command: Run) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    assert f"open {run / 'index.html'}" in command("report", run, "--open").stderr


def test_several_runs_are_remade_and_get_a_page_of_their_own(
    run: Path, stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str], command: Run
) -> None:
    other = stored(tmp_path, "other")
    monkeypatch.chdir(tmp_path)
    done = command("report", run, other, "--open")
    assert (run / "index.html").exists()
    assert (other / "index.html").exists()
    common = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "made: 2 runs" in common
    assert done.stdout.rstrip().endswith("report.html")
    assert opened == [(tmp_path / "report.html").as_uri()]


def test_the_common_page_goes_where_it_is_told_to(run: Path, tmp_path: Path, command: Run) -> None:
    command("report", run, run, "--out", tmp_path / "new" / "both.html")
    assert "2 runs" in (tmp_path / "new" / "both.html").read_text(encoding="utf-8")


def test_the_page_of_one_run_may_go_elsewhere_too(run: Path, tmp_path: Path, command: Run) -> None:
    command("report", run, "--out", tmp_path / "sent.html")
    assert (tmp_path / "sent.html").read_text(encoding="utf-8") == (run / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["page.pdf", "page", "html"])
def test_a_page_of_another_form_is_refused_before_anything_is_read(refused: Refused, name: str) -> None:
    assert "its name must end in .html" in refused("report", "nothing", "--out", name)
