"""Checking out another commit of the user's project, to be measured beside the present one.

Only methods are taken from it: both commits are measured by the harness that is running.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from attnbench.measure.environment import GIT
from attnbench.schema.errors import UsageError
from attnbench.store.scratch import is_scratch, scratch

_GIT_SECONDS, _INSTALL_SECONDS = 60.0, 600.0
_LAST_LINES = 6
_PROJECT = ("pyproject.toml", "setup.py")


class CheckoutError(UsageError):
    """There is no repository or no such commit, or it cannot be installed; the message says which."""


@dataclass(frozen=True)
class Checkout:
    """A commit and the folders that it was put into."""

    commit: str
    folder: Path
    """The folder in the checkout that corresponds to the one that was asked for."""
    packages: Path | None
    """The folder in which the project was installed; None where it is no package."""


@contextmanager
def checkout(ref: str, here: Path) -> Iterator[Checkout]:
    """Make a worktree of the repository that `here` lies in, at `ref`, and remove it afterwards. Raises CheckoutError."""
    root = Path(_git(here, "rev-parse", "--show-toplevel"))
    # --end-of-options, because a ref may begin with a dash
    commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", says=f"no commit {ref!r}")
    with scratch() as folder:
        # git still lists worktrees whose process was killed, after their folder has been removed
        for line in _git(root, "worktree", "list", "--porcelain").splitlines():
            stale = Path(line.removeprefix("worktree "))
            if line.startswith("worktree ") and is_scratch(stale.parent) and not stale.exists():
                _git(root, "worktree", "remove", "--force", str(stale))
        tree = folder / "tree"
        _git(root, "worktree", "add", "--detach", "--force", str(tree), commit)
        try:
            folder_there, packages = tree / here.resolve().relative_to(root), None
            if not folder_there.is_dir():
                raise CheckoutError(f"{ref} has no folder {here.resolve().relative_to(root)}: start from one that it has")
            around = (folder_there, *folder_there.parents)[: len(folder_there.relative_to(tree).parts) + 1]
            if (project := next((at for at in around for name in _PROJECT if (at / name).exists()), None)) is not None:
                packages = folder / "packages"
                # its dependencies are installed already
                pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
                _run([*pip, "--target", str(packages), str(project)], _INSTALL_SECONDS, "the commit cannot be installed")
                # if the project is attnbench itself, both sides are still measured by the running one
                shutil.rmtree(packages / "attnbench", ignore_errors=True)
            yield Checkout(commit, folder_there, packages)
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def _git(folder: Path, *arguments: str, says: str = "git") -> str:
    return _run([*GIT, "-C", str(folder), *arguments], _GIT_SECONDS, says)


def _run(command: list[str], seconds: float, says: str) -> str:
    """Run a command and return what it printed. Raises CheckoutError with its last lines."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CheckoutError(f"{says}: {error}") from error
    if done.returncode:
        words = " / ".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
        raise CheckoutError(f"{says}: {words}" if words else says)
    return done.stdout.strip()
