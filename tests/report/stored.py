"""Texts that are kept in `golden/`; RENEW=1 writes them anew after a wanted change, and `git diff` shows what it was."""

import os
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def as_stored(name: str, text: str) -> bool:
    """Say whether a text is the stored one; with RENEW it is from now on."""
    file = GOLDEN / name
    if os.environ.get("RENEW"):
        file.write_text(text, encoding="utf-8")
    return text == file.read_text(encoding="utf-8")
