"""The Triton kernels of linear attention, by Triton's interpreter, against the definition."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench.api import Problem, Workload

# by name: installed under another name than that of its folder
TritonLinear: Any = import_module("attnbench_impls.linear.triton").TritonLinear
reference: Any = import_module("attnbench_impls.linear.reference")
MAPS = ["elu_plus_one", "relu", "squared_relu"]
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Put a request to the process that interprets kernels."""
    folder, names = tmp_path_factory.mktemp("triton"), count()
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    script = [sys.executable, "-W", "error", str(Path(__file__).with_name("triton_on_cpu.py"))]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:

        def put(what: str = "evaluate", params: dict[str, Any] | None = None, **request: Any) -> Any:
            path = folder / str(next(names))
            torch.save({"what": what, "params": params or {}, **request}, path)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() == str(path)
            return torch.load(f"{path}.out", weights_only=False)

        yield put
        assert process.stdin is not None
        process.stdin.close()


def problem(**shape: Any) -> dict[str, Any]:
    return {"B": 1, "H": 2, "N": 70, "D": 16, "causal": True, **shape}


def drawn(shape: dict[str, Any]) -> tuple[tuple[Tensor, ...], Tensor]:
    generator = torch.Generator().manual_seed(7)
    q, k, v = TritonLinear.inputs(Problem(**shape), generator)
    return (q, k, v), torch.randn(v.shape, generator=generator).to(v.dtype)


def by_definition(
    shape: dict[str, Any], inputs: tuple[Tensor, ...], g: Tensor, params: dict[str, Any] | None = None, **mask: Any
) -> list[Tensor]:
    """The output and gradients in float64, or in the dtype of the inputs."""
    method = TritonLinear(Problem(**shape), **(params or {}))
    leaves = [x.detach().requires_grad_() for x in inputs]
    o = method.reference(*leaves, **mask)
    return [o.detach(), *torch.autograd.grad(o, leaves, g.expand_as(o).to(o.dtype))]


def exact(shape: dict[str, Any], inputs: tuple[Tensor, ...], g: Tensor, **more: Any) -> list[Tensor]:
    return by_definition(shape, tuple(x.double() for x in inputs), g.double(), **more)


def assert_close(got: list[Tensor], want: list[Tensor], tolerance: float = 2e-6) -> None:
    """Within float32's rounding of sums of this length, relative to the largest."""
    for a, b in zip(got, want, strict=True):
        assert float((a.double() - b).abs().max()) <= tolerance * max(1.0, float(b.abs().max()))


@pytest.mark.parametrize(("N", "feature_map"), [(N, MAPS[0]) for N in (1, 63, 64, 257)] + [(150, MAPS[1]), (150, MAPS[2])])
def test_the_values_and_gradients_are_those_of_the_definition(N: int, feature_map: str, ask: Ask) -> None:
    shape, params = problem(N=N, D=20, M=9), {"feature_map": feature_map, "eps": 1e-3}
    inputs, g = drawn(shape)
    assert_close(ask(problem=shape, params=params, inputs=inputs, g=g), exact(shape, inputs, g, params=params))


@pytest.mark.slow
def test_a_precision_that_changes_after_the_forward_changes_no_gradient(ask: Ask) -> None:
    """What the forward kept is cut as its own precision has it."""
    shape = problem(H=1, N=900, D=64)
    inputs, g = drawn(shape)
    first, later = (ask(problem=shape, inputs=inputs, g=g, **change) for change in ({}, {"later": "high"}))
    assert all(torch.equal(x, y) for x, y in zip(first, later, strict=True))


@pytest.mark.parametrize(("D", "M"), [(80, 16), (16, 80), (1, 1)])
def test_programs_may_share_the_columns_of_a_result(D: int, M: int, ask: Ask) -> None:
    shape = problem(N=150, D=D, M=M, H=1)
    inputs, g = drawn(shape)
    assert_close(ask(problem=shape, inputs=inputs, g=g), exact(shape, inputs, g))


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(B=st.integers(1, 2), H=st.integers(1, 3), N=st.integers(1, 140), D=st.integers(1, 40), M=st.integers(1, 40))
def test_any_shape_will_do(B: int, H: int, N: int, D: int, M: int, ask: Ask) -> None:
    shape = problem(B=B, H=H, N=N, D=D, M=M)
    inputs, g = drawn(shape)
    assert_close(ask(problem=shape, inputs=inputs, g=g), exact(shape, inputs, g))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype(dtype: str, ask: Ask) -> None:
    shape = problem(N=160, D=32, H=1, dtype=dtype)
    inputs, g = drawn(shape)
    got, eager, want = ask(problem=shape, inputs=inputs, g=g), by_definition(shape, inputs, g), exact(shape, inputs, g)
    for o, e, r in zip(got, eager, want, strict=True):
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max())
        assert float((o.double() - r).abs().max()) <= 2 * float((e.double() - r).abs().max()) + slack


def test_float16_survives_sums_that_it_cannot_hold(ask: Ask) -> None:
    """Scores of 10⁴, states of 10⁶ and denominators of 10⁷, where float16 ends at 65504, and shares of 10⁻³."""
    shape = problem(N=1024, D=16, H=1, dtype="float16")
    inputs, g = drawn(shape)
    inputs = tuple(20 + 10 * x.abs() for x in inputs)
    got = ask(problem=shape, params={"feature_map": "relu"}, inputs=inputs, g=g)
    want = exact(shape, inputs, g, params={"feature_map": "relu"})
    assert_close(got[:1], want[:1], 1e-3)
    assert_close(got[1:], want[1:], 5e-3)


def test_bfloat16_keeps_its_sums_in_float32(ask: Ask) -> None:
    """A sum kept in bfloat16 stops growing at 256 equal terms; the mean of v would then be far off."""
    shape = problem(N=2048, D=16, H=1, dtype="bfloat16")
    k = torch.zeros(1, 1, 2048, 16, dtype=torch.bfloat16)
    v = (torch.arange(2048) >= 1024).bfloat16().view(1, 1, -1, 1).expand(1, 1, 2048, 16)
    (o,) = ask(problem=shape, inputs=(k, k, v))
    torch.testing.assert_close(o[0, 0, -1].float(), torch.full((16,), 0.5), rtol=0.01, atol=0)


@pytest.mark.parametrize("t", [64, 129])
def test_no_token_sees_the_future(t: int, ask: Ask) -> None:
    shape = problem(N=200, H=1)
    (q, k, v), _ = drawn(shape)
    later = tuple(torch.cat([x[:, :, :t], -3 * x[:, :, t:]], 2) for x in (q, k, v))
    before, after = (ask(problem=shape, inputs=inputs)[0] for inputs in ((q, k, v), later))
    assert torch.equal(before[:, :, :t], after[:, :, :t])
    assert not torch.equal(before[:, :, t:], after[:, :, t:])


@pytest.mark.parametrize("feature_map", MAPS)
def test_hidden_keys_do_not_exist(feature_map: str, ask: Ask) -> None:
    shape = problem(B=2, N=150, H=1)
    (q, k, v), g = drawn(shape)
    mask = torch.rand(2, 150, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[1] = False
    # at hidden places anything may stand
    k = torch.where(mask[:, None, :, None], k, 1e4)
    got = ask(problem=shape, params={"feature_map": feature_map}, inputs=(q, k, v), g=g, key_mask=mask)
    want = exact(
        shape, (q, torch.where(mask[:, None, :, None], k, 0), v), g, params={"feature_map": feature_map}, key_mask=mask
    )
    assert_close(got, want)
    assert not got[0][1].any()
    assert not any(x.transpose(1, 2)[~mask].any() for x in got[2:])


def test_layouts_give_the_same_bits_and_so_do_their_gradients(ask: Ask) -> None:
    shape = problem(B=2, H=1)
    inputs, g = drawn(shape)
    tokens_first = tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs)
    columns_first = tuple(x.mT.contiguous().mT for x in inputs)
    usual = ask(problem=shape, inputs=inputs, g=g)
    for other in (tokens_first, columns_first):
        assert all(torch.equal(a, b) for a, b in zip(ask(problem=shape, inputs=other, g=g), usual, strict=True))


def test_a_gradient_may_be_one_number_for_all(ask: Ask) -> None:
    shape = problem(N=100)
    inputs, _ = drawn(shape)
    g = torch.ones(())
    assert_close(ask(problem=shape, inputs=inputs, g=g), exact(shape, inputs, g))


def test_the_same_call_gives_the_same_bits(ask: Ask) -> None:
    shape = problem(N=140, H=1)
    inputs, g = drawn(shape)
    first, second = (ask(problem=shape, inputs=inputs, g=g) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_constant_values_come_out_as_they_are(ask: Ask) -> None:
    shape = problem(N=140, H=1, dtype="bfloat16")
    (q, k, v), _ = drawn(shape)
    (o,) = ask(problem=shape, inputs=(q, k, torch.full_like(v, 3.0)))
    # two roundings, and the interpreter rounds to bfloat16 by cutting off
    torch.testing.assert_close(o.float(), torch.full(o.shape, 3.0), rtol=2**-6, atol=0)


@pytest.mark.slow
def test_the_operator_keeps_what_torch_asks_of_one(ask: Ask) -> None:
    """Schema, fake tensors, autograd registration, and tracing with dynamic shapes."""
    shape = problem(N=130)
    inputs, _ = drawn(shape)
    (found,) = ask(what="opcheck", problem=shape, inputs=inputs)
    assert set(found.values()) == {"SUCCESS"}


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("trains", "padding"),
    [(True, 0.5), (False, 0.0), pytest.param(True, 0.0, marks=SLOW), pytest.param(False, 0.5, marks=SLOW)],
)
def test_the_predicted_peak_is_what_torch_allocates(trains: bool, padding: float, ask: Ask) -> None:
    shape = problem(N=300, D=32, M=16, H=1, dtype="bfloat16", padding=padding)
    inputs, g = drawn(shape)
    mask = torch.arange(300)[None] < 150 if padding else None
    (peak,) = ask(what="peak", problem=shape, inputs=inputs, g=g if trains else None, key_mask=mask)
    workload = Workload.FORWARD_BACKWARD if trains else Workload.FORWARD
    assert peak == pytest.approx(TritonLinear.cost(Problem(**shape), {}, workload).peak_bytes, rel=0.1)


def test_decoding_goes_on_where_the_kernels_stopped(ask: Ask) -> None:
    shape = problem(N=80)
    (q, k, v), _ = drawn(shape)
    (parallel,) = ask(problem=shape, inputs=(q, k, v))
    method = TritonLinear(Problem(**shape))
    _, state = method.prefill(q[:, :, :0], k[:, :, :0], v[:, :, :0], capacity=80)
    steps = []
    for t in range(80):
        o, state = method.step(*(x[:, :, t : t + 1] for x in (q, k, v)), state=state)
        steps.append(o)
    torch.testing.assert_close(torch.cat(steps, 2), parallel)


def test_the_definition_here_is_that_of_the_family() -> None:
    shape = problem(N=40)
    (q, k, v), _ = drawn(shape)
    method = TritonLinear(Problem(**shape))
    want = reference.linear_attention(q, k, v, causal=True, eps=1e-6, phi=method.phi)
    assert torch.equal(method.reference(q, k, v), want)
