"""A process that interprets our Triton kernels, one for all tests of a file."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

Ask = Callable[..., list[Any]]


# not for longer: a process that is left running is what later tests look for
@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Put a request to the process (triton_on_cpu.py says of what kinds there are)."""
    folder, names = tmp_path_factory.mktemp("triton"), count()
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    script = [sys.executable, "-W", "error", str(Path(__file__).with_name("triton_on_cpu.py"))]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdin is not None

        def put(what: str = "evaluate", **request: Any) -> list[Any]:
            path = folder / str(next(names))
            torch.save({"what": what, **request}, path)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() == str(path)
            found: list[Any] = torch.load(f"{path}.out", weights_only=False)
            return found

        yield put
        process.stdin.close()
