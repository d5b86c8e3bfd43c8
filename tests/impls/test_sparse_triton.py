"""The sparse Triton kernels, by Triton's interpreter, against the definition."""

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
triton: Any = import_module("attnbench_impls.sparse.triton")
Ask = Callable[..., Any]
Case = tuple[str, dict[str, Any], dict[str, Any]]

# every pattern and mode, causal and not, with lengths that do and do not end with a block, group or tile
CASES: list[Case] = [
    ("Strided", {"stride": 5}, {"N": 63, "H": 1}),
    ("Strided", {"stride": 3, "convention": "code"}, {"N": 40, "H": 1, "causal": False}),
    ("Strided", {"stride": 7, "mode": "per_head"}, {"N": 64, "kv_heads": 1}),
    ("Fixed", {"stride": 20, "c": 5}, {"N": 63}),
    ("Fixed", {"stride": 20, "c": 8}, {"N": 50, "kv_heads": 1, "causal": False}),
    ("Fixed", {"stride": 32, "c": 8, "mode": "per_head", "distinct": False}, {"N": 64, "kv_heads": 1}),
    ("Fixed", {"stride": 20, "c": 3, "mode": "by_layer", "layer": 1}, {"N": 40, "kv_heads": 1}),
    ("Local", {"stride": 40}, {"N": 200, "H": 1}),
    ("Atrous", {"stride": 3, "reach": 4}, {"N": 63, "H": 1, "causal": False}),
    ("Window", {"window": 33}, {"N": 64, "H": 1, "causal": False}),
    ("Longformer", {"window": 9, "globals": 3}, {"N": 64, "H": 1}),
    ("Longformer", {"window": 9, "globals": 3, "dilation": 3, "dilated_heads": 1}, {"N": 40, "causal": False, "kv_heads": 1}),
]
MORE: list[Case] = [
    ("Longformer", {"window": 3, "globals": 50}, {"N": 63, "H": 1, "causal": False}),
    ("Local", {"stride": 300, "convention": "code"}, {"N": 64, "H": 1, "causal": False}),
    ("Strided", {"stride": 5, "mode": "by_layer", "layer": 1}, {"N": 64, "H": 1, "causal": False}),
    ("Strided", {"stride": 17}, {"N": 63}),
    ("Strided", {"stride": 6}, {"N": 200, "causal": False, "kv_heads": 1}),
    ("Strided", {"stride": 40, "mode": "per_head"}, {"N": 200}),
    ("Strided", {"stride": 16, "mode": "per_head"}, {"N": 257, "kv_heads": 1, "causal": False}),
    ("Fixed", {"stride": 20, "c": 5}, {"N": 200, "H": 4, "kv_heads": 1, "causal": False}),
    ("Fixed", {"stride": 50, "c": 2}, {"B": 2, "N": 257, "H": 3}),
    ("Fixed", {"stride": 16, "c": 3, "mode": "by_layer", "layer": 1}, {"N": 64, "H": 4, "kv_heads": 2, "causal": False}),
    ("Atrous", {"stride": 7}, {"N": 257}),
    ("Longformer", {"window": 64, "globals": 2, "dilation": 2}, {"N": 257, "H": 4, "kv_heads": 2}),
]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Put a request to the process that interprets kernels."""
    folder, names = tmp_path_factory.mktemp("triton"), count()
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    script = [sys.executable, "-W", "error", str(Path(__file__).with_name("sparse_triton_on_cpu.py"))]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:

        def put(case: Case, what: str = "evaluate", **request: Any) -> Any:
            path, (method, params, shape) = folder / str(next(names)), case
            whole = {"what": what, "method": f"Triton{method}", "params": params, "problem": problem(shape), **request}
            torch.save(whole, path)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() == str(path)
            return torch.load(f"{path}.out", weights_only=False)

        yield put
        assert process.stdin is not None
        process.stdin.close()


def problem(shape: dict[str, Any]) -> dict[str, Any]:
    return {"B": 1, "H": 2, "D": 16, "causal": True, **shape}


def method_of(case: Case) -> Any:
    return getattr(triton, f"Triton{case[0]}")(Problem(**problem(case[2])), **case[1])


def drawn(case: Case) -> tuple[tuple[Tensor, ...], Tensor]:
    generator, p = torch.Generator().manual_seed(7), Problem(**problem(case[2]))
    inputs = triton.TritonSparse.inputs(p, generator)
    return inputs, torch.randn(p.B, p.H, p.N, p.M, generator=generator).to(inputs[0].dtype)


def by_definition(case: Case, inputs: tuple[Tensor, ...], g: Tensor) -> list[Tensor]:
    """The output and gradients, in the dtype of the inputs."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    o = method_of(case).reference(*leaves)
    return [o.detach(), *torch.autograd.grad(o, leaves, g.expand_as(o).to(o.dtype))]


def exact(case: Case, inputs: tuple[Tensor, ...], g: Tensor) -> list[Tensor]:
    return by_definition(case, tuple(x.double() for x in inputs), g.double())


def assert_right(case: Case, ask: Ask, **request: Any) -> None:
    """Within float32's rounding of sums of this length, relative to the largest."""
    inputs, g = drawn(case)
    for a, b in zip(ask(case, inputs=inputs, g=g, **request), exact(case, inputs, g), strict=True):
        assert float((a.double() - b).abs().max()) <= 2e-6 * max(1.0, float(b.abs().max()))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_values_and_gradients_are_those_of_the_definition(case: Case, ask: Ask) -> None:
    assert_right((case[0], case[1], {"D": 20, "M": 9, **case[2]}), ask)


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE, ids=str)
def test_longer_sequences_and_more_heads_are_no_different(case: Case, ask: Ask) -> None:
    assert_right(case, ask)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("method", ["Strided", "Fixed", "Longformer"])
def test_one_token_sees_itself(method: str, causal: bool, ask: Ask) -> None:
    assert_right((method, {} if method == "Longformer" else {"stride": 3}, {"N": 1, "causal": causal}), ask)


@st.composite
def drawn_cases(draw: Any) -> Case:
    """Few groups, so that few programs are to be interpreted."""
    kind = draw(st.sampled_from(["Strided", "Fixed", "Longformer"]))
    params = {
        "Strided": {"stride": draw(st.integers(1, 6))},
        "Fixed": {"stride": draw(st.integers(9, 40)), "c": draw(st.integers(1, 9))},
        "Longformer": {
            "window": draw(st.integers(1, 70)),
            "dilation": draw(st.integers(1, 4)),
            "globals": draw(st.integers(0, 4)),
        },
    }
    shape = {"N": draw(st.integers(1, 70)), "D": draw(st.integers(1, 40)), "M": draw(st.integers(1, 40))}
    return kind, params[kind], {**shape, "H": 1, "causal": draw(st.booleans())}


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=drawn_cases())
def test_any_shape_will_do(case: Case, ask: Ask) -> None:
    assert_right(case, ask)


@pytest.mark.parametrize("params", [{}, pytest.param({"dilation": 3, "dilated_heads": 1}, marks=pytest.mark.slow)], ids=str)
def test_long_rows_and_columns_may_be_shared_out_among_programs(params: dict[str, Any], ask: Ask) -> None:
    case = ("Longformer", {"window": 5, "globals": 3, **params}, {"N": 50, "causal": False, "kv_heads": 1})
    assert_right(case, ask, share=16)


@pytest.mark.parametrize(("method", "dtype"), [("Strided", "bfloat16"), ("Longformer", "float16")])
def test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype(method: str, dtype: str, ask: Ask) -> None:
    params = {"stride": 4} if method == "Strided" else {"window": 9}
    case = (method, params, {"N": 64, "D": 32, "H": 1, "dtype": dtype, "causal": False})
    inputs, g = drawn(case)
    got, eager, want = ask(case, inputs=inputs, g=g), by_definition(case, inputs, g), exact(case, inputs, g)
    for o, e, r in zip(got, eager, want, strict=True):
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max())
        assert float((o.double() - r).abs().max()) <= 2 * float((e.double() - r).abs().max()) + slack


def test_large_scores_do_not_overflow(ask: Ask) -> None:
    case: Case = ("Strided", {"stride": 4}, {"N": 48, "H": 1})
    (q, k, v), g = drawn(case)
    got, want = ask(case, inputs=(100 * q, 100 * k, v), g=g), exact(case, (100 * q, 100 * k, v), g)
    assert all(x.isfinite().all() for x in got)
    assert float((got[0].double() - want[0]).abs().max()) < 1e-2


@pytest.mark.parametrize("method", ["Strided", "Fixed", "Longformer"])
def test_no_token_sees_the_future(method: str, ask: Ask) -> None:
    case = (
        method,
        {"window": 20, "dilation": 2} if method == "Longformer" else {"stride": 16 if method == "Fixed" else 4},
        {"N": 64, "H": 1},
    )
    inputs, _ = drawn(case)
    later = tuple(torch.cat([x[:, :, :41], -3 * x[:, :, 41:]], 2) for x in inputs)
    before, after = (ask(case, inputs=x)[0] for x in (inputs, later))
    assert torch.equal(before[:, :, :41], after[:, :, :41])
    assert not torch.equal(before[:, :, 41:], after[:, :, 41:])


def test_a_query_that_sees_nothing_gives_nothing_and_moves_nothing(ask: Ask) -> None:
    case: Case = ("Fixed", {"stride": 16, "c": 2, "mode": "by_layer", "layer": 1}, {"N": 40, "H": 1})
    inputs, g = drawn(case)
    o, dq, _, _ = ask(case, inputs=inputs, g=g)
    assert not o[:, :, :14].any()
    assert not dq[:, :, :14].any()
    assert o[:, :, 14:].all()


def test_layouts_and_repeated_calls_give_the_same_bits(ask: Ask) -> None:
    case: Case = ("Strided", {"stride": 1}, {"B": 2, "N": 24, "H": 1})
    inputs, g = drawn(case)
    tokens_first = tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs)
    columns_first = tuple(x.mT.contiguous().mT for x in inputs)
    usual = ask(case, inputs=inputs, g=g)
    for other in (inputs, tokens_first, columns_first):
        assert all(torch.equal(a, b) for a, b in zip(ask(case, inputs=other, g=g), usual, strict=True))


def test_a_gradient_may_be_one_number_for_all(ask: Ask) -> None:
    case: Case = ("Window", {"window": 16}, {"N": 40})
    inputs, g = drawn(case)[0], torch.ones(())
    for a, b in zip(ask(case, inputs=inputs, g=g), exact(case, inputs, g), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_the_operator_keeps_what_torch_asks_of_one(ask: Ask) -> None:
    """Schema, fake tensors, autograd registration, and tracing with dynamic shapes."""
    case: Case = ("Window", {"window": 20}, {"N": 30, "M": 8, "kv_heads": 1})
    (found,) = ask(case, what="opcheck", inputs=drawn(case)[0])
    assert set(found.values()) == {"SUCCESS"}


def test_decoding_gives_what_the_kernels_give(ask: Ask) -> None:
    case: Case = ("Fixed", {"stride": 16, "c": 3}, {"N": 40, "H": 1})
    (q, k, v), method = drawn(case)[0], method_of(case)
    (parallel,) = ask(case, inputs=(q, k, v))
    o, state = method.prefill(q[:, :, :20], k[:, :, :20], v[:, :, :20], capacity=40)
    found = [o]
    for t in range(20, 40):
        o, state = method.step(*(x[:, :, t : t + 1] for x in (q, k, v)), state=state)
        found.append(o)
    torch.testing.assert_close(torch.cat(found, 2), parallel)


COSTED: list[Case] = [
    ("Strided", {"stride": 3}, {"N": 70, "D": 32, "M": 16, "H": 1}),
    ("Fixed", {"stride": 20, "c": 3}, {"N": 37, "kv_heads": 1, "causal": False}),
    ("Longformer", {"window": 40, "globals": 3, "dilation": 3}, {"N": 70, "D": 20, "H": 1, "causal": False}),
]


@pytest.mark.parametrize("case", COSTED, ids=str)
def test_the_executed_count_is_that_of_the_products(case: Case, ask: Ask) -> None:
    (inputs, g), method = drawn(case), method_of(case)
    (found,) = ask(case, what="flops", inputs=inputs, g=g)
    assert found == method.cost(method.problem, case[1], Workload.FORWARD_BACKWARD).executed_flops


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
def test_the_predicted_peak_is_what_torch_allocates(workload: Workload, ask: Ask) -> None:
    case: Case = ("Strided", {"stride": 2}, {"N": 32, "H": 1, "D": 128, "M": 64, "dtype": "bfloat16"})
    (inputs, g), method = drawn(case), method_of(case)
    (peak,) = ask(case, what="peak", inputs=inputs, g=g if workload is Workload.FORWARD_BACKWARD else None)
    assert peak == pytest.approx(method.cost(method.problem, case[1], workload).peak_bytes, rel=0.1)
