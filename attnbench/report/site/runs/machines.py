"""Machines in short words."""

import re

from attnbench.report.text.names import one_line, shorten

_NOISE = re.compile(r"\((?:R|TM|C)\)|\b(?:CPU|Processor)\b|@ *[\d.]+ *[GM]Hz", re.IGNORECASE)
_WIDTH = 64


def machine_words(machine: str) -> str:
    """`Intel Xeon, 2 cores, 2 threads` of `Intel(R) Xeon(R) Processor @ 2.60GHz, 2 cores, 2 threads`."""
    parts = (one_line(_NOISE.sub(" ", part)) for part in machine.split(","))
    return shorten(", ".join(filter(None, parts)) or machine, _WIDTH) or "a machine without a name"
