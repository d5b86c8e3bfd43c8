"""The folder of a site, which never takes the place of anything else, and the folders of its runs."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.report.site.folder import MARKER, SiteError, check, replaced
from attnbench.report.site.runs import Found, Kind, machine_words
from attnbench.report.site.shelf import INDEX, TREND, addresses
from attnbench.schema.history import Entry
from attnbench.store.run_folder import StoreError
from tests.report.site.conftest import Lab


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A site of two files."""
    out = tmp_path / "site"
    make(out, "old")
    return out


def make(out: Path, content: str, meanwhile: Callable[[], object] = lambda: None) -> None:
    with replaced(out) as folder:
        (folder / "index.html").write_text(content)
        meanwhile()
        (folder / "quick").mkdir()
        (folder / "quick/a.html").write_text(content)


def is_old_alone(out: Path) -> bool:
    """Say whether the old site is there, with nothing half made beside it."""
    return (out / "index.html").read_text() == "old" and [each.name for each in out.parent.iterdir()] == ["site"]


def test_a_site_takes_the_place_of_the_old_one_as_a_whole(out: Path) -> None:
    with replaced(out) as folder:
        (folder / "other.html").write_text("new")
        assert (out / "index.html").read_text() == "old"
    assert sorted(each.name for each in out.iterdir()) == [MARKER, "other.html"]
    assert [each.name for each in out.parent.iterdir()] == ["site"]


@pytest.mark.parametrize("place", ["public/runs/site", "empty", "link"])
def test_a_site_is_made_below_new_folders_in_an_empty_one_and_behind_a_link_that_stays(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    make(tmp_path / place, "new")
    assert (tmp_path / place / "quick/a.html").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SiteError])
def test_whatever_happens_meanwhile_the_old_site_is_whole(out: Path, failure: type[BaseException]) -> None:
    def fail() -> None:
        raise failure

    with pytest.raises(failure):
        make(out, "half", fail)
    assert is_old_alone(out)


@pytest.mark.parametrize(
    ("which", "error", "raised", "words"),
    [
        (1, KeyboardInterrupt(), KeyboardInterrupt, "^$"),
        (2, KeyboardInterrupt(), KeyboardInterrupt, "^$"),
        (1, OSError(28, "No space left on device"), StoreError, r"cannot write .*site: No space left on device"),
    ],
)
def test_an_interruption_at_either_rename_leaves_the_old_site(
    out: Path, monkeypatch: pytest.MonkeyPatch, which: int, error: BaseException, raised: type[BaseException], words: str
) -> None:
    real, targets = Path.rename, []

    def rename(self: Path, target: Path) -> Path:
        targets.append(target)
        if len(targets) == which:
            raise error
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(raised, match=words):
        make(out, "new")
    assert is_old_alone(out)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda out: (out / "CNAME").write_text("example.org"), "CNAME"),
        (lambda out: (out / "notes").mkdir(), "notes"),
        (lambda out: (out / "photos").symlink_to("/"), "photos"),
        (lambda out: (out / MARKER).unlink(), "index.html"),
        (lambda out: (out / MARKER).write_text("[["), f"({MARKER}|index.html)"),
    ],
    ids=["a file", "an empty folder", "a link", "no marker", "a damaged marker"],
)
@pytest.mark.parametrize("late", [False, True], ids=["before", "while the site is made"])
def test_what_the_command_did_not_make_is_not_replaced(
    out: Path, change: Callable[[Path], None], named: str, late: bool
) -> None:
    (results := out.with_name("results")).mkdir()
    check(results, out)
    if not late:
        change(out)
        with pytest.raises(SiteError, match=f"holds {named}, which attnbench site did not make"):
            check(results, out)
    with pytest.raises(SiteError, match=named):
        make(out, "new", lambda: change(out) if late else None)
    assert (out / "index.html").read_text() == "old"


@pytest.mark.parametrize(
    ("results", "out", "said"),
    [
        ("results", "file", "is there and is no folder"),
        ("results", "results/site", "lies in results, whose runs are read"),
        ("results", "results", "lies in results, whose runs are read"),
        (".", "site", "lies in ., whose runs are read"),
        ("results/quick", "results", "lies in results, which is replaced as a whole"),
        ("again", "results/site", "lies in again, whose runs are read"),
        ("nowhere", "site", "nowhere is no folder; name one with runs below it, as results"),
        ("file", "site", "file is no folder"),
    ],
)
def test_runs_and_site_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: str, out: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/quick").mkdir(parents=True)
    (tmp_path / "again").symlink_to("results")
    (tmp_path / "file").write_text("")
    with pytest.raises(SiteError) as error:
        check(Path(results), Path(out))
    assert said in str(error.value)


@pytest.mark.usefixtures("plain")
def test_runs_that_cannot_be_read_do_not_take_the_place_of_a_site(lab: Lab, out: Path) -> None:
    with pytest.raises(SiteError, match=r"results holds no run; name a folder of run folders"):
        lab.build(out)
    for name in ("a", "b"):
        (lab.results / name).mkdir()
        (lab.results / name / "run.json").write_text("{")
    with pytest.raises(SiteError, match=r"holds no run that can be read: a: run\.json cannot be read: .*; and 1 more"):
        lab.build(out)
    assert (out / "index.html").read_text() == "old"


@pytest.mark.usefixtures("plain")
def test_a_folder_that_may_not_be_read_is_left_out(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    lab.run("a")
    (lab.results / "locked").mkdir()
    monkeypatch.setattr(os, "scandir", scandir)
    assert [(each.place, each.why) for each in lab.build(tmp_path / "new").left_out] == [("locked", "Permission denied")]


# the folders of runs


NAMES = ("Quick", "quick", "QUICK", "index.html", "trend.html", "..", "../..", "a b", "a-b", "", "é", "x" * 200, "X" * 200)
WORDS = st.sampled_from(NAMES) | st.text(max_size=20)


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS, WORDS), unique=True, max_size=12))
def test_every_run_has_a_folder_of_its_own_whatever_it_is_called(names: list[tuple[str, str, str]]) -> None:
    runs = []
    for number, (suite, machine, run) in enumerate(names):
        entry = Entry(place=f"run{number}", suite=suite, machine=machine, run=run, started="2026-01-01T00:00:00+00:00")
        runs.append(Found(Path(entry.place), entry, Kind.RUN, "", "", 0))
    known = addresses(runs)
    assert addresses(reversed(runs)) == known
    folders = [known[each.place] for each in runs]
    assert len({folder.casefold() for folder in folders}) == len(runs)
    # and shares those above it only with runs of its suite and machine
    above = {folder.rpartition("/")[0].casefold() for folder in folders}
    assert len(above) == len({(suite, machine) for suite, machine, _ in names})
    for folder in folders:
        suite, machine, run = folder.split("/")
        assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", name) for name in (suite, machine, run))
        assert suite.casefold() != INDEX
        assert run.casefold() != TREND


def test_machines_are_called_by_short_words() -> None:
    assert machine_words("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz, 8 cores") == "Intel Xeon Platinum 8481C, 8 cores"
    assert (machine_words("CPU"), machine_words("")) == ("CPU", "a machine without a name")
