"""What stands in a run folder beside its records and goes along: figures with their captions, tables, texts."""

from pathlib import Path

from attnbench.report.site.runs.shelf import Link, Shelf
from attnbench.store.history import RECORDS, RUN, files_of

_FIGURES = frozenset({".png", ".svg", ".pdf", ".pgf", ".txt"})
_TEXTS = frozenset({".md", ".csv", ".tex"})
_DATA = frozenset({"selfcheck.json"})
RAW = frozenset({RUN, RECORDS, "plan.json"})


def copy(run: Path, shelf: Shelf, *, records: bool) -> tuple[list[Link], list[tuple[str, str]]]:
    """Links to what was copied, and files that were not, with the reason; what is made anew is not copied over.

    Links are not followed: a folder from elsewhere must not publish files of this machine. Raises OSError of writing.
    """
    links, left_out = [], []
    for inner in files_of(run):
        name = inner.as_posix()
        if not _wanted(run, inner, records=records) or shelf.holds(name):
            continue
        if any((run / part).is_symlink() for part in (inner, *inner.parents[:-1])):
            left_out.append((name, "a link to somewhere else"))
            continue
        try:
            content = (run / inner).read_bytes()
        except OSError as error:
            left_out.append((name, error.strerror or "cannot be read"))
            continue
        links.append(shelf.write(name, content))
    return links, left_out


def _wanted(run: Path, inner: Path, *, records: bool) -> bool:
    """Figures at any depth, but of a run that lies within this one; texts beside the records only: exports have folders."""
    if any((run / part / RUN).exists() for part in inner.parents[:-1]):
        return False
    beside = len(inner.parts) == 1
    own = inner.suffix in _TEXTS or inner.name in _DATA or (records and inner.name in RAW)
    return inner.suffix in _FIGURES or (beside and own)
