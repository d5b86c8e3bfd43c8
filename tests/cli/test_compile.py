"""A run of methods as they are and under torch.compile, for real."""

import pytest

from attnbench.schema.outcome import Measured
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, Run, Write

SUITE = """
name: both
axes: {N: 64, H: 2, D: 16, causal: true, compile: [false, true]}
methods: [softmax.naive, softmax.sdpa]
budget: {seconds: 1, timeout: 200}
replicates: 1
"""


@pytest.mark.slow
def test_a_suite_puts_a_method_beside_itself_compiled(attnbench: Run, suite: Write, only_run: Find) -> None:
    done = attnbench("run", suite(SUITE))
    assert done.returncode == 0, done.stderr
    found = {r.job.cell.method: r.outcome for r in RunFolder(only_run()).records() if r.job.phase == "time"}
    compiled = found["softmax.naive+compile"]
    assert isinstance(found["softmax.naive"], Measured)
    assert isinstance(compiled, Measured)
    assert compiled.facts["graphs"] not in {0, None}
    table = (only_run() / "table.md").read_text(encoding="utf-8")
    assert "softmax.naive+compile" in table
    assert "its tier is library: only eager methods are compiled" in table
