"""What is told of a traceback names no folder of one machine."""

import subprocess
import sys
from pathlib import Path


def test_a_file_of_this_project_is_named_within_it_wherever_python_was_started(tmp_path: Path) -> None:
    code = "from attnbench.worker import portable; print(portable.portable(portable.__file__))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "attnbench/worker/portable.py\n"
