"""Texts that leave this machine: tracebacks name files by their path within a package, without folders of this machine."""

import sys
from pathlib import Path

# read when this is imported, because a plugin may change sys.path and the current folder later; this project's own folder need
# not be on the path, as an editable install is found by a hook
_FOLDERS = (*sys.path, str(Path(__file__).parents[2]), str(Path.cwd()), sys.prefix, sys.base_prefix)
_LONGEST_FIRST = sorted({folder.rstrip("/") for folder in _FOLDERS} - {""}, key=len, reverse=True)


def portable(text: str) -> str:
    """Return the text without the folders in which Python finds its modules."""
    for folder in _LONGEST_FIRST:
        text = text.replace(f"{folder}/", "")
    return text
