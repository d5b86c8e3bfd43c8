"""Our Triton kernels by Triton's interpreter: a process of it for all tests of a file, and calls beside their definitions."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.api import Problem
from tests.impls.contract.calls import Call
from tests.impls.contract.method import Params
from tests.impls.contract.subjects import Variant

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


@dataclass(frozen=True)
class Kernels:
    """A Triton method on a problem, built where it is asked for."""

    name: str
    params: Params = field(default_factory=dict)
    shape: Params = field(default_factory=dict)
    share: int = 512
    """From which length on rows are shared out."""

    def __str__(self) -> str:
        return f"{self.name} {self.params} {self.shape}"

    @cached_property
    def call(self) -> Call:
        problem = Problem(**{"B": 1, "H": 1, "N": 64, "D": 16, "causal": True, **self.shape})
        return Call(Variant(self.name, self.params), problem, trains=True)

    def put(self, ask: Ask, inputs: Sequence[Tensor] = (), what: str = "evaluate", **more: Any) -> list[Any]:
        """By the kernels: the output, and with a g the gradients of q, k and v."""
        about = {"name": self.name, "params": self.params, "problem": self.call.problem.model_dump(), "share": self.share}
        about |= {"state": self.call.method.state_dict(), "keywords": self.call.given, **more}
        return ask(what, inputs=[x.detach() for x in inputs or self.call.inputs], **about)

    def results(self, ask: Ask, **more: Any) -> list[Tensor]:
        """Of its own inputs and dL/do."""
        return self.put(ask, g=self.call.g, **more)


def linear(N: int, feature_map: str = "elu_plus_one", eps: float = 1e-3, **shape: Any) -> Kernels:
    return Kernels("linear.triton", {"feature_map": feature_map, "eps": eps}, {"N": N, **shape})


def sparse(name: str, params: Params, N: int, *, share: int = 512, **shape: Any) -> Kernels:
    return Kernels(f"sparse.{name}_triton", params, {"N": N, **shape}, share)


def vq(block: int, codes: int = 6, *, through_table: bool = True, **shape: Any) -> Kernels:
    params = {"codes": codes, "block": block, "gradient_through_table": through_table}
    return Kernels("vq.triton", params, {"N": 40, **shape})
