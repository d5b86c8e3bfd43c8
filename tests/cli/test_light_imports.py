"""What a command imports: torch, pandas and matplotlib take seconds, and are loaded only by those that need them."""

import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

from tests.cli.conftest import Stored

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "epyc-2-cores"
HEAVY = {"torch", "pandas", "matplotlib"}
CODE = """
import sys
from attnbench.cli.app import main
heavy, *words = sys.argv[1:]
sys.argv = ["attnbench", *words]
try:
    main()
except SystemExit as left:
    assert not left.code, left.code
found = set(heavy.split()) & set(sys.modules)
assert not found, found
"""


@pytest.mark.parametrize(
    ("words", "heavy", "says"),
    [
        (("--help",), HEAVY | {"pydantic", "rich"}, "Measure a suite"),
        (("crossover", "{run}"), HEAVY, "stays ahead of"),
        (("trend", "results", "--json", "trend.json"), HEAVY | {"fsspec"}, "No change was found"),
        (("history", "list", "results"), HEAVY | {"fsspec"}, "4 ok"),
        (("published", str(REFERENCE)), {"torch"}, "# Published and reproduced"),
        (("plot", "{run}", "--kind", "scaling", "--format", "svg"), {"torch"}, "scaling.svg"),
        (("report", "{run}"), {"torch"}, "index.html"),
        (("site", "results", "site"), {"torch"}, "1 run of 1 suite"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_command_loads_nothing_heavy_that_it_does_not_need(
    words: tuple[str, ...], heavy: set[str], says: str, stored: Stored, tmp_path: Path
) -> None:
    run = stored(tmp_path / "results", "one")
    command = [sys.executable, "-W", "error", "-c", CODE, " ".join(heavy), *(word.format(run=run) for word in words)]
    # matplotlib takes long to look for its fonts, which it remembers
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "MPLCONFIGDIR": matplotlib.get_cachedir()}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
