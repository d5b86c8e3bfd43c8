"""Words that leave this machine: tracebacks name files by their place in a package, not by a folder of one machine."""

import sys
from pathlib import Path

# taken at import: a plugin may change the path and the folder later
_FOLDERS = {folder.rstrip("/") for folder in (*sys.path, str(Path.cwd()), sys.prefix, sys.base_prefix)} - {""}
_LONGEST_FIRST = sorted(_FOLDERS, key=len, reverse=True)


def portable(text: str) -> str:
    """The text without the folders that Python finds its modules in."""
    for folder in _LONGEST_FIRST:
        text = text.replace(f"{folder}/", "")
    return text
