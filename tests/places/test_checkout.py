"""Another commit in a folder of its own, by a real git."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from attnbench.places.checkout import CheckoutError, checkout

IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *IDENTITY, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "below").mkdir(exist_ok=True)
    (folder / "below" / "mine.py").write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def test_the_commit_lies_in_a_folder_of_its_own_that_goes_however_the_measurement_ends(repository: Path) -> None:
    old = commit(repository, "A = 1")
    commit(repository, "A = 2")
    # changes that are not committed stay where they are
    mine = repository / "below" / "mine.py"
    mine.write_text("A = 3")
    with checkout("HEAD~1", repository / "below") as found:
        assert found.commit == old
        assert (found.folder.name, (found.folder / "mine.py").read_text()) == ("below", "A = 1")
        assert found.packages is None
    assert not found.folder.exists()
    with pytest.raises(KeyError, match="A = 2"), checkout("HEAD", repository) as found:
        raise KeyError((found.folder / "below" / "mine.py").read_text())
    assert not found.folder.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert mine.read_text() == "A = 3"
    (repository / "later").mkdir()
    with pytest.raises(CheckoutError, match="HEAD has no folder later"), checkout("HEAD", repository / "later"):
        pass


@pytest.mark.parametrize("ref", ["nowhere", "--help", "-q", "", "HEAD:below"])
def test_a_commit_that_is_none_and_a_folder_outside_any_repository_are_told(repository: Path, ref: str) -> None:
    commit(repository, "A = 1")
    with pytest.raises(CheckoutError, match="no commit"), checkout(ref, repository):
        pass
    with pytest.raises(CheckoutError, match="not a git repository"), checkout("HEAD", repository.parent):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("at", [".", "one/of/several"])
def test_a_project_is_installed_apart_and_found_first_or_that_it_cannot_be_is_told(repository: Path, at: str) -> None:
    repository /= at
    repository.mkdir(parents=True, exist_ok=True)
    project = repository / "pyproject.toml"
    project.write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "mine-and-only-mine"\nversion = "1"\n[tool.setuptools]\npackages = ["below"]\n'
    )
    (repository / "below").mkdir()
    (repository / "below" / "__init__.py").write_text("")
    commit(repository, "A = 1")
    with checkout("HEAD", repository / "below") as found:
        assert found.packages is not None
        code = "import below.mine, importlib.metadata as m; print(below.mine.A, m.version('mine-and-only-mine'))"
        command, environment = [sys.executable, "-c", code], {"PYTHONPATH": str(found.packages)}
        done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "1"]
    project.write_text("[build-system\n")
    commit(repository, "A = 2")
    with pytest.raises(CheckoutError, match="cannot be installed"), checkout("HEAD", repository):
        pass


def test_what_a_killed_process_left_is_removed_and_git_keeps_no_note_of_it(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, "A = 1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = (
        "import signal; from pathlib import Path; from attnbench.places.checkout import checkout\n"
        f"with checkout('HEAD', Path({str(repository)!r})) as found: print(found.folder, flush=True); signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", told], stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        left = Path(killed.stdout.readline().rstrip())
        killed.kill()
    assert left.is_dir()
    with checkout("HEAD", repository):
        assert not left.exists()
        assert len(git(repository, "worktree", "list").splitlines()) == 2
    assert len(git(repository, "worktree", "list").splitlines()) == 1
