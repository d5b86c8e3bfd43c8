"""What a command imports: torch, pandas and matplotlib take seconds, and are loaded only by those that need them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Stored

REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "epyc-2-cores"
HEAVY = {"torch", "pandas", "matplotlib"}
COMMANDS = [
    (("--help",), HEAVY | {"pydantic", "rich"}, "Measure a suite"),
    (("history", "list", "results"), HEAVY | {"fsspec"}, "4 ok"),
    (("trend", "results", "--json", "trend.json"), HEAVY | {"fsspec"}, "No change was found"),
    (("crossover", "{run}"), HEAVY, "stays ahead of"),
    (("export", "{run}", "--to", "bencher", "--out", "-"), HEAVY, "latency"),
    (("published", str(REFERENCE)), {"torch"}, "# Published and reproduced"),
    (("plot", "{run}", "--kind", "scaling", "--format", "svg"), {"torch"}, "scaling.svg"),
    (("report", "{run}"), {"torch"}, "index.html"),
    (("site", "results", "site"), {"torch"}, "1 run of 1 suite"),
]
"""With what a command may not load, nor any before it, and with words that it says: the lightest come first."""
# one process for all: what is not there after a command was loaded by none of those before it
CODE = """
import json, sys
from attnbench.cli.app import main
heavy = set(sys.argv[1].split())
for words in json.loads(sys.argv[2]):
    sys.argv = ["attnbench", *words]
    try:
        main()
    except SystemExit as left:
        assert not left.code, (words, left.code)
    print("\\nloaded:", *sorted(heavy & set(sys.modules)))
"""


def test_commands_load_nothing_heavy_that_they_do_not_need(stored: Stored, tmp_path: Path) -> None:
    run = stored(tmp_path / "results", "one")
    words = [[word.format(run=run) for word in command] for command, _, _ in COMMANDS]
    heavy = " ".join(set[str]().union(*(modules for _, modules, _ in COMMANDS)))
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    line = [sys.executable, "-W", "error", "-c", CODE, heavy, json.dumps(words)]
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    *found, rest = re.split(r"\nloaded:(.*)\n", done.stdout)
    assert rest == ""
    for (command, modules, says), said, loaded in zip(COMMANDS, found[::2], found[1::2], strict=True):
        assert says in said
        assert not modules & set(loaded.split()), command
