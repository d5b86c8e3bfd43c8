"""The machine in a few words, as they fit into a sentence or onto a card."""

import re

from attnbench.report.conditions import device_name
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line, shorten

_NOISE = re.compile(r"\((?:R|TM|C)\)|[®™]|\bCPU\b|\bProcessor\b|@.*", re.IGNORECASE)
_WIDTH = 40


def short_machine(findings: Findings) -> str:
    """`2 cores (Intel Xeon)`, or the name of the GPU."""
    full = device_name(findings)
    name = shorten(one_line(_NOISE.sub(" ", full)) or full, _WIDTH)
    cores = (findings.run.environment | findings.run.surroundings.facts).get("cores")
    if findings.run.surroundings.device.startswith("cuda") or not isinstance(cores, int):
        return name
    return f"{cores} core{'' if cores == 1 else 's'} ({name})"
