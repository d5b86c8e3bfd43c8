"""Whoever follows CONTRIBUTING can hold the contract against their own attention, before it is registered."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_attention_that_contributing_shows_keeps_the_contract(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    file = tmp_path / "my_attention.py"
    file.write_text(textwrap.dedent(found.group(1)), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/impls/contract", "-q", "-n", "0", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**environment, "ATTNBENCH_CONTRACT": f"{file}:MeanOfValues"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 20
