"""Our Reformer attention: the definition under all parameters, the package's function by default, and what hashing promises."""

from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.measure.profiler_memory import saved_for_backward, torch_profiler_peak

reformer_rows: Any = import_module("attnbench_impls.lsh.reformer_rows")
shared_qk_attention: Any = import_module("attnbench_impls.lsh.shared_qk").shared_qk_attention


def reformer(problem: Problem, **params: Any) -> Any:
    return build("lsh.reformer", problem, **{"bucket_size": 8, "rounds": 3, **params})


def results(method: Any, function: str, choices: Tensor, size: float = 1.0) -> list[Tensor]:
    qk, _, v = (x.double() for x in type(method).inputs(method.problem, torch.Generator().manual_seed(3)))
    qk, v = (qk * size).requires_grad_(), v.requires_grad_()
    g = torch.randn(v.shape, generator=torch.Generator().manual_seed(4), dtype=v.dtype)
    o = (method if function == "forward" else method.reference)(qk, qk, v, choices=choices)
    return [o.detach(), *torch.autograd.grad(o, (qk, v), g)]


def buckets_of(method: Any) -> Tensor:
    buckets: Tensor = method.choose(*type(method).inputs(method.problem, torch.Generator().manual_seed(3)))
    return buckets


def assert_same(got: list[Tensor], want: list[Tensor]) -> None:
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


PARAMETERS = st.fixed_dictionaries(
    {
        "rounds": st.integers(1, 4),
        "bucket_size": st.integers(1, 20),
        "temperature": st.sampled_from(["package", "paper"]),
        "across_buckets": st.booleans(),
        "duplicates": st.sampled_from(["allowed", "corrected"]),
        "look_forward": st.booleans(),
        "factorise": st.sampled_from(["auto", True]),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 90), st.booleans(), PARAMETERS, st.integers(0, 2**16))
def test_every_parameter_computes_the_definition(N: int, causal: bool, params: dict[str, Any], seed: int) -> None:
    torch.manual_seed(seed)
    method = reformer(Problem(B=1, H=2, N=N, D=6, M=5, causal=causal, dtype="float64"), **params)
    choices = buckets_of(method)
    assert_same(results(method, "forward", choices), results(method, "reference", choices))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.booleans(), PARAMETERS, st.integers(0, 2**16))
def test_scores_too_large_to_be_summed_as_they_are_make_no_difference(
    N: int, causal: bool, params: dict[str, Any], seed: int
) -> None:
    torch.manual_seed(seed)
    method = reformer(Problem(B=1, H=2, N=N, D=6, M=5, causal=causal, dtype="float64"), **params)
    choices = buckets_of(method)
    assert_same(results(method, "forward", choices, 1000.0), results(method, "reference", choices, 1000.0))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("B", [1, 2])
def test_inputs_of_any_strides_are_read(B: int, causal: bool) -> None:
    method = reformer(Problem(B=B, H=3, N=40, D=8, causal=causal))
    x = torch.randn(2, B, 40, 3, 8)
    choices = method.choose(*(x[0].transpose(1, 2),) * 2, x[1].transpose(1, 2))

    def evaluate(dense: bool) -> list[Tensor]:
        qk, v = (y.transpose(1, 2) for y in x)
        qk, v = ((y.contiguous() if dense else y).detach().requires_grad_() for y in (qk, v))
        o = method(qk, qk, v, choices=choices)
        return [o.detach(), *torch.autograd.grad(o.square().sum(), (qk, v))]

    for a, b in zip(evaluate(dense=False), evaluate(dense=True), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("params", [{}, {"look_forward": True}, {"duplicates": "corrected", "across_buckets": False}], ids=str)
def test_pieces_that_are_attended_apart_make_no_difference(
    params: dict[str, Any], causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = reformer(Problem(B=2, H=3, N=60, D=6, causal=causal, dtype="float64"), **params)
    choices = buckets_of(method)
    whole = results(method, "forward", choices)
    for rows, at_once in ((1, 8), (500, 40), (500, 10**6)):
        monkeypatch.setattr(reformer_rows, "ROWS", rows)
        monkeypatch.setattr(reformer_rows, "AT_ONCE", at_once)
        assert_same(results(method, "forward", choices), whole)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rounds", [1, 4])
def test_by_default_it_is_the_function_of_the_package(rounds: int, causal: bool) -> None:
    problem = Problem(B=2, H=2, N=128, D=8, causal=causal, dtype="float64")
    ours = build("lsh.reformer", problem, rounds=rounds, bucket_size=16)
    package = build("lsh.reformer_pytorch", problem, rounds=rounds, bucket_size=16)
    choices = buckets_of(package)

    def of_package() -> list[Tensor]:
        qk, _, v = (x.requires_grad_() for x in type(package).inputs(problem, torch.Generator().manual_seed(3)))
        g = torch.randn(v.shape, generator=torch.Generator().manual_seed(4), dtype=v.dtype)
        o = package(qk, qk, v, choices=choices)
        return [o.detach(), *torch.autograd.grad(o, (qk, v), g)]

    assert_same(results(ours, "forward", choices), of_package())


def test_one_seed_gives_the_buckets_of_the_package() -> None:
    problem = Problem(B=2, H=2, N=256, D=8, dtype="float64")
    drawn = []
    for name in ("lsh.reformer", "lsh.reformer_pytorch"):
        torch.manual_seed(5)
        drawn.append(buckets_of(build(name, problem, rounds=3, bucket_size=16)))
    assert torch.equal(*drawn)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N", [1, 31, 64])
def test_one_round_of_two_chunks_is_full_attention(N: int, causal: bool, inputs_of: Any) -> None:
    method = reformer(Problem(B=2, H=2, N=N, D=8, causal=causal, dtype="float64"), rounds=1, bucket_size=32)
    qk, _, v = inputs_of(method)
    want = shared_qk_attention(qk, v, 8**-0.5, causal=causal)
    torch.testing.assert_close(method(qk, qk, v), want, rtol=0, atol=1e-10)
    torch.testing.assert_close(method.exact(qk, qk, v), want, rtol=0, atol=1e-10)


def test_corrected_rounds_are_one_softmax_over_the_union(inputs_of: Any) -> None:
    """So many rounds see every pair, and each counts once."""
    method = reformer(Problem(B=1, H=2, N=40, D=8, dtype="float64"), rounds=32, duplicates="corrected")
    qk, _, v = inputs_of(method)
    torch.testing.assert_close(method(qk, qk, v), shared_qk_attention(qk, v, 8**-0.5, causal=False), rtol=0, atol=1e-10)


def test_the_order_of_rounds_makes_no_difference_within_buckets(inputs_of: Any) -> None:
    method = reformer(Problem(B=1, H=2, N=64, D=8, dtype="float64"), across_buckets=False)
    inputs, choices = inputs_of(method), buckets_of(method)
    turned = choices.roll(1, 2)
    torch.testing.assert_close(method(*inputs, choices=turned), method(*inputs, choices=choices), rtol=0, atol=1e-12)


@pytest.mark.parametrize("params", [{}, {"look_forward": True, "across_buckets": False, "duplicates": "corrected"}], ids=str)
def test_later_values_change_nothing_before_them_to_the_last_bit(params: dict[str, Any], inputs_of: Any) -> None:
    method = reformer(Problem(B=1, H=2, N=100, D=8, causal=True), **params)
    (qk, _, v), choices = (x.detach() for x in inputs_of(method)), buckets_of(method)
    o = method(qk, qk, v, choices=choices)
    v[:, :, 70:] = 3 - v[:, :, 70:]
    changed = method(qk, qk, v, choices=choices)
    assert torch.equal(changed[:, :, :70], o[:, :, :70])
    assert not torch.equal(changed[:, :, 70:], o[:, :, 70:])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_token_that_sees_only_itself_gets_its_own_value_exactly(dtype: str, inputs_of: Any) -> None:
    method = reformer(Problem(B=2, H=2, N=50, D=8, causal=True, dtype=dtype))
    qk, _, v = inputs_of(method)
    o = method(qk, qk, v)
    assert torch.equal(o[:, :, 0], v[:, :, 0])
    dqk, dv = torch.autograd.grad(o[:, :, 0].sum(), (qk, v))
    assert torch.equal(dv[:, :, 0], torch.ones_like(v[:, :, 0]))
    assert not dqk.any()
    assert not dv[:, :, 1:].any()


def test_equal_vectors_share_a_bucket_and_opposite_ones_do_not() -> None:
    method = reformer(Problem(B=1, H=1, N=64, D=8, dtype="float64"), bucket_size=4, factorise=True)
    qk = torch.randn(1, 1, 64, 8, dtype=torch.float64)
    qk[:, :, 40], qk[:, :, 50] = 2 * qk[:, :, 7], -qk[:, :, 7]
    choices = method.choose(qk, qk, qk)
    buckets = choices.view(3, 64)
    assert torch.equal(buckets[:, 40], buckets[:, 7])
    assert not (buckets[:, 50] == buckets[:, 7]).any()


def test_more_than_128_buckets_are_hashed_in_two_factors_and_stay_balanced() -> None:
    method = reformer(Problem(B=1, H=4, N=4096, D=32), bucket_size=16, rounds=1)
    buckets = buckets_of(method)
    assert int(buckets.max()) < 256
    assert float(buckets.flatten().bincount(minlength=256).double().std()) < 4096 * 4 / 256
    torch.manual_seed(9)
    first = buckets_of(method)
    torch.manual_seed(9)
    assert torch.equal(first, buckets_of(method))
    assert not torch.equal(first, buckets_of(method))


def test_every_token_has_one_slot_in_each_round() -> None:
    method = reformer(Problem(B=2, H=2, N=77, D=8))
    order = method._sort(torch.randn(4, 77, 8), None).order
    assert order.shape == (4, 3, 77)
    assert torch.equal(order.sort(-1).values, torch.arange(77, dtype=torch.int32).expand(4, 3, 77))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("params", [{"bucket_size": 64}, {"bucket_size": 128}, {}, {"look_forward": True}], ids=str)
@pytest.mark.parametrize("N", [64, 77])
def test_no_number_is_read_before_it_is_written(
    N: int, params: dict[str, Any], causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In deterministic mode new memory is full of NaN."""
    method = reformer(Problem(B=2, H=2, N=N, D=8, causal=causal, dtype="float64"), **params)
    choices = buckets_of(method)
    whole = results(method, "forward", choices)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(2).isnan().all()
        assert_same(results(method, "forward", choices), whole)
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_inputs_and_choices_are_left_as_they_were(inputs_of: Any) -> None:
    method = reformer(Problem(B=2, H=2, N=50, D=8, causal=True), across_buckets=False)
    (qk, _, v), choices = inputs_of(method), buckets_of(method)
    before = [x.detach().clone() for x in (qk, v, choices)]
    method(qk, qk, v, choices=choices).sum().backward()
    method(qk, qk, v, choices=choices.int())
    assert all(torch.equal(x, y) for x, y in zip((qk, v, choices), before, strict=True))


def test_the_forward_without_gradients_is_the_same_bit_for_bit(inputs_of: Any) -> None:
    method = reformer(Problem(B=1, H=2, N=100, D=8))
    inputs, choices = inputs_of(method), buckets_of(method)
    with torch.no_grad():
        bare = method(*inputs, choices=choices)
    assert torch.equal(bare, method(*inputs, choices=choices))


def test_a_second_derivative_is_refused_in_words(inputs_of: Any) -> None:
    method = reformer(Problem(B=1, H=1, N=20, D=8))
    qk, _, v = inputs_of(method)
    (dqk,) = torch.autograd.grad(method(qk, qk, v).square().sum(), qk, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dqk.sum().backward()


def test_two_tensors_are_refused_even_if_equal(inputs_of: Any) -> None:
    method = reformer(Problem(B=1, H=2, N=40, D=8))
    qk, _, v = inputs_of(method)
    for call in (method, method.reference, method.exact):
        with pytest.raises(ValueError, match="one tensor"):
            call(qk, qk.clone(), v)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": "warm"},
        {"duplicates": "no"},
        {"factorise": 1},
        {"look_forward": 0},
        {"rounds": 0},
        {"across_buckets": 1},
    ],
    ids=str,
)
def test_a_bad_parameter_is_refused_by_name(params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(params))}=.*must be"):
        reformer(Problem(N=64), **params)


@pytest.mark.parametrize("rounds", [1, 4])
def test_it_takes_less_memory_than_the_package(rounds: int, inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    problem = Problem(B=1, H=4, N=1024, D=64)
    peaks = []
    for name in ("lsh.reformer", "lsh.reformer_pytorch"):
        method = build(name, problem, rounds=rounds)
        inputs, g = inputs_of(method), gradient_of(method)
        evaluate(method, "forward", inputs, g)
        peaks.append(torch_profiler_peak(partial(evaluate, method, "forward", inputs, g)).bytes or 0)
    assert peaks[0] < peaks[1] / rounds**0.5


def test_what_is_kept_for_the_backward_does_not_grow_with_rounds_but_for_the_order(inputs_of: Any) -> None:
    problem = Problem(B=1, H=2, N=512, D=64)
    kept = []
    for rounds in (2, 8):
        method = build("lsh.reformer", problem, rounds=rounds)
        inputs = inputs_of(method)
        kept.append(saved_for_backward(partial(method, *inputs)).bytes or 0)
    assert kept[1] - kept[0] == 6 * 4 * 2 * 512


@pytest.mark.cuda
@pytest.mark.parametrize("N", [63, 1024])
@pytest.mark.parametrize("causal", [False, True])
def test_a_gpu_computes_the_same(N: int, causal: bool, inputs_of: Any) -> None:
    method = reformer(Problem(B=1, H=2, N=N, D=64, causal=causal))
    inputs, choices = inputs_of(method), buckets_of(method)
    with torch.no_grad():
        qk, _, v = (x.cuda() for x in inputs)
        o = method(qk, qk, v, choices=choices.cuda()).cpu()
        torch.testing.assert_close(o, method.reference(*inputs, choices=choices), rtol=1e-4, atol=1e-4)
