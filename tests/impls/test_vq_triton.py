"""The Triton kernels of attention over quantised keys, by Triton's interpreter, against the definition."""

import copy
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
triton: Any = import_module("attnbench_impls.vq.triton")
cost: Any = import_module("attnbench_impls.vq.triton_cost")
plan: Any = import_module("attnbench_impls.vq.triton_plan")
tuning: Any = import_module("attnbench_impls.vq.triton_tuning")
Ask = Callable[..., Any]
How = tuple[int, bool, bool]  # tokens of a block, causal, whether gradients go through the table

USUAL = {"B": 1, "H": 1, "N": 40, "D": 16, "M": 16, "S": 6}
# lengths that do and do not end with a block, tile or segment; with no table, one, and many
CASES: list[tuple[How, dict[str, int]]] = [
    ((20, True, True), {"N": 63, "D": 20, "M": 9}),
    ((9, True, True), {"N": 31, "H": 2, "S": 5}),
    ((16, True, False), {"N": 50}),
    ((64, True, True), {"N": 64}),
    ((100, True, True), {"N": 33}),
    ((1, True, True), {"N": 5}),
    ((3, True, True), {"N": 1}),
    ((3, True, True), {"N": 2}),
    ((16, False, True), {"N": 63, "D": 20, "M": 9}),
    ((16, False, True), {"N": 300, "S": 20}),
    ((16, False, False), {"N": 33}),
    ((16, False, True), {"N": 1}),
]
MORE: list[tuple[How, dict[str, int]]] = [
    ((64, True, True), {"N": 257, "S": 30, "H": 2}),
    ((100, True, True), {"N": 400, "S": 100, "D": 40, "M": 70}),
    ((16, True, True), {"N": 100, "B": 2, "H": 3}),
    ((20, True, True), {"N": 64, "S": 40}),
    ((7, True, True), {"N": 40, "H": 2, "S": 5}),
    ((16, False, True), {"N": 300, "B": 2, "H": 2, "S": 70}),
]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Put a request to the process that interprets kernels."""
    folder, names = tmp_path_factory.mktemp("triton"), count()
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    script = [sys.executable, "-W", "error", str(Path(__file__).with_name("vq_triton_on_cpu.py"))]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:

        def put(what: str, **request: Any) -> Any:
            path = folder / str(next(names))
            torch.save({"what": what, **request}, path)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() == str(path)
            return torch.load(f"{path}.out", weights_only=False)

        yield put
        assert process.stdin is not None
        process.stdin.close()


def drawn(shape: dict[str, int], dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], Tensor]:
    """q, k, v, codes, codebook and dL/do. The keys are not those of the codes: what is taken from where can be told apart."""
    B, H, N, D, M, S = ({**USUAL, **shape}[name] for name in "BHNDMS")
    generator = torch.Generator().manual_seed(7)
    q, k, v, g = (torch.randn(B, H, N, width, generator=generator).to(dtype) for width in (D, D, M, M))
    codes = torch.randint(S, (B, H, N), generator=generator)
    return [q, k, v, codes, torch.randn(H, S, D, generator=generator).to(dtype)], g


def by_definition(how: How, inputs: list[Tensor], g: Tensor) -> list[Tensor]:
    """The output, and the gradients of q, k and v, from all scores; Lingle 2023, theorems 3.4 and 3.7."""
    q, k, v = (x.detach().requires_grad_() for x in inputs[:3])
    (codes, codebook), (block, causal, through_table) = inputs[3:], how
    rows = torch.stack([codebook[h][codes[:, h]] for h in range(codes.shape[1])], 1)
    i = torch.arange(q.shape[2])
    near = (i[:, None] // block - i // block <= 1) & causal
    scores = torch.where(near, q @ k.mT, q @ rows.mT)
    weights = scores.masked_fill((i[:, None] < i) & causal, -torch.inf).softmax(-1)
    o = weights * near @ v + weights * ~near @ (v if through_table else v.detach())
    gradients = torch.autograd.grad(o, (q, k, v), g.expand_as(o).to(o.dtype), allow_unused=True, materialize_grads=True)
    return [o.detach(), *gradients]


def exact(how: How, inputs: list[Tensor], g: Tensor) -> list[Tensor]:
    return by_definition(how, [x.double() if x.is_floating_point() else x for x in inputs], g.double())


def assert_right(how: How, shape: dict[str, int], ask: Ask) -> None:
    """Within float32's rounding of sums of this length, relative to the largest."""
    inputs, g = drawn(shape)
    for a, b in zip(ask("attend", how=how, inputs=inputs, g=g), exact(how, inputs, g), strict=True):
        assert float((a.double() - b).abs().max()) <= 1e-5 * max(1.0, float(b.abs().max()))


@pytest.mark.parametrize(("how", "shape"), CASES, ids=str)
def test_the_values_and_gradients_are_those_of_the_definition(how: How, shape: dict[str, int], ask: Ask) -> None:
    assert_right(how, shape, ask)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "shape"), MORE, ids=str)
def test_longer_sequences_and_more_heads_are_no_different(how: How, shape: dict[str, int], ask: Ask) -> None:
    assert_right(how, shape, ask)


@st.composite
def drawn_cases(draw: Any) -> tuple[How, dict[str, int]]:
    """Few blocks, so that few programs are to be interpreted."""
    N = draw(st.integers(1, 70))
    widths = {"D": draw(st.integers(1, 40)), "M": draw(st.integers(1, 40)), "S": draw(st.integers(1, 40))}
    return (draw(st.integers(max(1, N // 6), 80)), draw(st.booleans()), draw(st.booleans())), {"N": N, **widths}


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=drawn_cases())
def test_any_shape_will_do(case: tuple[How, dict[str, int]], ask: Ask) -> None:
    assert_right(*case, ask)


def test_a_table_has_the_mean_value_and_count_of_each_code_so_far(ask: Ask) -> None:
    inputs, _ = drawn({"N": 70, "H": 2, "S": 5})
    means, counts = ask("tables", how=(16, True, True), inputs=inputs)
    _, _, v, codes, _ = inputs
    assert means.shape == (2, 3, 5, 16)
    for t in range(3):
        old = slice(16 * (t + 1))
        assert (counts[:, t].sum(-1) == 16 * (t + 1)).all()
        for h in range(2):
            for s in range(5):
                own = v[0, h, old][codes[0, h, old] == s]
                assert counts[h, t, s] == len(own)
                torch.testing.assert_close(means[h, t, s], own.mean(0) if len(own) else torch.zeros(16))


def test_means_of_values_far_from_zero_stay_exact(ask: Ask) -> None:
    inputs, _ = drawn({"N": 70, "S": 1})
    inputs[2] = torch.full_like(inputs[2], 1e30)
    means, _ = ask("tables", how=(4, True, True), inputs=inputs)
    assert means.shape[1] == 16
    torch.testing.assert_close(means, torch.full_like(means, 1e30), rtol=1e-6, atol=0)


@pytest.mark.parametrize("causal", [True, False])
def test_codes_that_no_token_has_weigh_nothing(causal: bool, ask: Ask) -> None:
    inputs, _ = drawn({"N": 40, "S": 40})
    inputs[3] = inputs[3] % 3 + 37
    (o,) = ask("attend", how=(8, causal, True), inputs=inputs)
    # the scores of all others would be infinite
    inputs[4][:, :37] = 1e30
    assert torch.equal(ask("attend", how=(8, causal, True), inputs=inputs)[0], o)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype(dtype: torch.dtype, causal: bool, ask: Ask) -> None:
    inputs, g = drawn({"N": 64, "D": 32, "S": 10}, dtype)
    how = (16, causal, True)
    got, eager, want = ask("attend", how=how, inputs=inputs, g=g), by_definition(how, inputs, g), exact(how, inputs, g)
    for o, e, r in zip(got, eager, want, strict=True):
        assert o.dtype == dtype
        slack = 4 * torch.finfo(dtype).eps * float(r.abs().max())
        assert float((o.double() - r).abs().max()) <= 2 * float((e.double() - r).abs().max()) + slack


@pytest.mark.parametrize("causal", [True, False])
def test_large_scores_do_not_overflow(causal: bool, ask: Ask) -> None:
    inputs, g = drawn({"N": 48})
    inputs[:2] = [100 * x for x in inputs[:2]]
    how = (8, causal, True)
    got, want = ask("attend", how=how, inputs=inputs, g=g), exact(how, inputs, g)
    assert all(x.isfinite().all() for x in got)
    assert float((got[0].double() - want[0]).abs().max()) < 1e-2


def test_no_token_sees_the_future(ask: Ask) -> None:
    how, (inputs, _) = (8, True, True), drawn({"N": 64, "S": 9})
    *_, codebook = inputs
    later = [torch.cat([x[:, :, :41], -3 * x[:, :, 41:]], 2) for x in inputs[:3]]
    codes = torch.cat([inputs[3][:, :, :41], 8 - inputs[3][:, :, 41:]], 2)
    before, after = ask("attend", how=how, inputs=inputs)[0], ask("attend", how=how, inputs=[*later, codes, codebook])[0]
    assert torch.equal(before[:, :, :41], after[:, :, :41])
    assert not torch.equal(before[:, :, 41:], after[:, :, 41:])


def test_the_block_length_changes_nothing_where_keys_are_codes(ask: Ask) -> None:
    inputs, g = drawn({"N": 40})
    inputs[1] = inputs[4][0][inputs[3][0, 0]][None, None]
    results = [ask("attend", how=(block, True, True), inputs=inputs, g=g) for block in (7, 13, 40)]
    for got in results[:2]:
        # but for the gradient of keys, which ends with the window
        for i in (0, 1, 3):
            torch.testing.assert_close(got[i], results[2][i], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_layouts_and_repeated_calls_give_the_same_bits(causal: bool, ask: Ask) -> None:
    how, (inputs, g) = (7, causal, True), drawn({"B": 2, "N": 16})
    usual = ask("attend", how=how, inputs=inputs, g=g)
    tokens_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs]
    columns_first = [x.mT.contiguous().mT for x in inputs]
    for others in (inputs, tokens_first, columns_first):
        assert all(torch.equal(a, b) for a, b in zip(ask("attend", how=how, inputs=others, g=g), usual, strict=True))


def test_a_gradient_may_be_one_number_for_all(ask: Ask) -> None:
    how, inputs, g = (16, True, True), drawn({})[0], torch.ones(())
    for a, b in zip(ask("attend", how=how, inputs=inputs, g=g), exact(how, inputs, g), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


def test_the_operator_keeps_what_torch_asks_of_one(ask: Ask) -> None:
    """Schema, fake tensors, autograd registration, and tracing with dynamic shapes."""
    (found,) = ask("opcheck", how=(8, True, True), inputs=drawn({"N": 20, "M": 8})[0])
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("through_table", [True, False])
def test_the_executed_count_is_that_of_the_products(through_table: bool, causal: bool, ask: Ask) -> None:
    shape = {"N": 100, "D": 32, "M": 20, "S": 37}
    inputs, g = drawn(shape)
    layout = plan.Plan.of(plan.Shape(**{**USUAL, **shape, "L": 30, "causal": causal}), "ieee")
    how = (30, causal, through_table)
    assert ask("flops", how=how, inputs=inputs) == [cost.attended_flops(layout, trains=False)]
    assert ask("flops", how=how, inputs=inputs, g=g) == [cost.attended_flops(layout, trains=True, through_table=through_table)]


# the method, with its normalisation and choice of codes


def method_of(problem: dict[str, Any], **params: Any) -> Any:
    return triton.TritonVQ(Problem(**{"B": 1, "H": 2, "D": 16, "causal": True, **problem}), **params)


def asked(ask: Ask, method: Any, params: dict[str, Any], inputs: Any, **request: Any) -> Any:
    problem = method.problem.model_dump()
    state, what = method.state_dict(), request.pop("what", "method")
    return ask(what, problem=problem, params=params, state=state, inputs=inputs, **request)


def test_it_can_be_copied_in_float64_as_the_correctness_gate_does() -> None:
    method = method_of({"N": 16}, codes=6, block=8)
    exact = copy.deepcopy(method).to(torch.float64)
    assert exact.attend is method.attend
    assert exact.codebook is not method.codebook


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("through_table", [True, False])
def test_the_method_gives_what_its_reference_gives(
    causal: bool, through_table: bool, ask: Ask, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    params = {"codes": 6, "block": 9, "gradient_through_table": through_table}
    method = method_of({"N": 40, "causal": causal}, **params)
    inputs, g = inputs_of(method), gradient_of(method)
    got = asked(ask, method, params, inputs, g=g)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    want = evaluate(method, "reference", wide, g.double(), choices=method.choose(*inputs))
    for a, b in zip(got, want, strict=True):
        assert float((a.double() - b).abs().max()) <= 4e-6 * max(1.0, float(b.abs().max()))


def test_codes_may_be_given(ask: Ask, inputs_of: Any) -> None:
    params = {"codes": 6, "block": 9}
    method = method_of({"N": 40}, **params)
    inputs = [x.detach() for x in inputs_of(method)]
    other = (method.choose(*inputs) + 1) % 6
    (got,) = asked(ask, method, params, inputs, choices=other)
    torch.testing.assert_close(got, method.reference(*inputs, choices=other))


def test_decoding_gives_what_the_kernels_give(ask: Ask, inputs_of: Any) -> None:
    params = {"codes": 6, "block": 8}
    method = method_of({"N": 40}, **params)
    inputs = [x.detach() for x in inputs_of(method)]
    (parallel,) = asked(ask, method, params, inputs)
    # without a prompt: prompts go through the kernels
    o, state = method.prefill(*(x[:, :, :0] for x in inputs), capacity=40)
    found = [o]
    for t in range(40):
        o, state = method.step(*(x[:, :, t : t + 1] for x in inputs), state=state)
        found.append(o)
    torch.testing.assert_close(torch.cat(found, 2), parallel)


@pytest.mark.parametrize(
    ("causal", "shape"),
    [(True, {"N": 32, "dtype": "bfloat16"}), (True, {"N": 25, "D": 32, "M": 64}), (False, {"N": 32})],
    ids=str,
)
@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
def test_the_predicted_peak_is_what_torch_allocates(
    workload: Workload, causal: bool, shape: dict[str, Any], ask: Ask, inputs_of: Any, gradient_of: Any
) -> None:
    params = {"codes": 60, "block": 8}
    method = method_of({"causal": causal, **shape}, **params)
    more = {"g": gradient_of(method)} if workload is Workload.FORWARD_BACKWARD else {}
    (peak,) = asked(ask, method, params, [x.detach() for x in inputs_of(method)], what="peak", **more)
    assert peak == pytest.approx(method.cost(method.problem, params, workload).peak_bytes, rel=0.1)
