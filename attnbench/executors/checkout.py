"""Another commit of the project that one stands in, ready to be measured beside the present one.

Only methods come from it: the harness that measures is the one that runs, for both.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from attnbench.measure.environment import GIT
from attnbench.store.scratch import is_scratch, scratch

_GIT_SECONDS, _INSTALL_SECONDS = 60.0, 600.0
_LAST_LINES = 6


class CheckoutError(RuntimeError):
    """No repository, no such commit, or one that cannot be installed; the message says which."""


@dataclass(frozen=True)
class Checkout:
    """Where a commit was put."""

    commit: str
    folder: Path
    """The folder in it that corresponds to the one that was asked for."""
    packages: Path | None
    """Its distribution, installed apart from all others; None where the project is none."""


@contextmanager
def checkout(ref: str, here: Path) -> Iterator[Checkout]:
    """A worktree of the repository that `here` lies in, at `ref`; gone afterwards. Raises CheckoutError."""
    root = Path(_git(here, "rev-parse", "--show-toplevel"))
    # a ref that begins with a dash would be an option
    commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", says=f"no commit {ref!r}")
    with scratch() as folder:
        _forget_removed(root)
        tree = folder / "tree"
        _git(root, "worktree", "add", "--detach", "--force", str(tree), commit)
        try:
            yield Checkout(commit, tree / here.resolve().relative_to(root), _installed(tree, folder / "packages"))
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def _forget_removed(root: Path) -> None:
    """Of worktrees whose process was killed and whose folder has been removed since, git still keeps a note."""
    for line in _git(root, "worktree", "list", "--porcelain").splitlines():
        tree = Path(line.removeprefix("worktree "))
        if line.startswith("worktree ") and is_scratch(tree.parent) and not tree.exists():
            _git(root, "worktree", "remove", "--force", str(tree))


def _installed(tree: Path, packages: Path) -> Path | None:
    """The project of a worktree without what it depends on, which is installed already."""
    if not (tree / "pyproject.toml").exists() and not (tree / "setup.py").exists():
        return None
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    _run([*command, "--target", str(packages), str(tree)], _INSTALL_SECONDS, "the commit cannot be installed")
    # where the project is this one: what measures must be the same on both sides
    shutil.rmtree(packages / "attnbench", ignore_errors=True)
    return packages


def _git(folder: Path, *arguments: str, says: str = "git") -> str:
    return _run([*GIT, "-C", str(folder), *arguments], _GIT_SECONDS, says)


def _run(command: list[str], seconds: float, says: str) -> str:
    """What it printed; raises CheckoutError with its last words."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CheckoutError(f"{says}: {error}") from error
    if done.returncode:
        words = " / ".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
        raise CheckoutError(f"{says}: {words}" if words else says)
    return done.stdout.strip()
