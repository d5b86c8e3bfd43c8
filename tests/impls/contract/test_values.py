"""Every method is its own definition, in values and all gradients, at odd and tiny lengths, any width, grouping and dtype."""

import copy
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import registry
from attnbench.api import Problem
from attnbench.workloads.setting import unique
from attnbench.workloads.weights import executed_weights
from tests.impls.contract.calls import Call, no_worse, same, turned
from tests.impls.contract.subjects import NAMES, SHAPES, VARIANTS, Variant, declared, each, named, of_every_length


def of_each_head(x: Tensor, like: Tensor, heads: int) -> Tensor:
    """A parameter of the heads of k and v, as if each head of q had its own."""
    for dim, (few, many) in enumerate(zip(x.shape, like.shape, strict=True)):
        x = x.repeat_interleave(heads, dim=dim) if many == heads * few else x
    return x


@pytest.mark.parametrize(("variant", "N"), of_every_length())
def test_values_and_gradients_are_those_of_the_definition(variant: Variant, N: int) -> None:
    for problem in variant.problems(N, *(SHAPES if N == 65 and variant.leads else ())):
        call = Call(variant, problem)
        want = call.exact()
        same(call.results(), want, call.off_by)
        if variant.kind.is_softmax:
            q, k, v = (x.detach().double() for x in call.inputs)
            same(want[:1], [F.scaled_dot_product_attention(q, k, v, is_causal=problem.causal, enable_gqa=True)], 1e-10)
        if call.choices is not None and call.chooses_alike:
            same(call.results(choices=None), want, call.off_by)


WEIGHING = {variant.name: each(among=[variant])[0] for variant in reversed(VARIANTS) if variant.kind.weighs}


@pytest.mark.parametrize("variant", WEIGHING.values())
@torch.no_grad()
def test_the_output_sums_values_by_the_weights_that_one_hot_values_show(variant: Variant) -> None:
    call = Call(variant, variant.some(33))
    found, v = executed_weights(call.method, call.inputs, call.choices), call.inputs[2]
    of_each = found @ v.repeat_interleave(call.problem.H // v.shape[1], 1)
    same([of_each], [call.method(*call.inputs, **call.given)], call.off_by)


@pytest.mark.parametrize("dtype", ["bfloat16", *(pytest.param(x, marks=pytest.mark.slow) for x in ("float32", "float16"))])
@pytest.mark.parametrize("variant", each())
def test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype(variant: Variant, dtype: str) -> None:
    for problem in variant.problems(128, {}, B=1, H=2, D=32, dtype=dtype):
        call = Call(variant, problem)
        got, kind = call.results(), cast("Any", variant.kind)
        assert {x.dtype for x in (*got, *kind(problem, **variant.params).parameters())} == {getattr(torch, dtype)}
        exact = call.exact()
        # in float32 a sum over all tokens, or exp in torch's fused kernels on a CPU, may be 20 units in the last place off
        no_worse(got, call.results("reference"), exact, 20 * 2**-23 * max(1.0, *(float(x.abs().max()) for x in exact)))


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_in_float64_is_a_method_of_its_own(name: str) -> None:
    """As the check makes one. What needs another project's package may be absent, or warn."""
    kind: Any = registry.load(name)
    if all(package.startswith(("triton", "cuda-core")) for package in kind.requires):
        method = kind(Problem(H=2, N=64, D=16, causal=True))
        exact = copy.deepcopy(method).to(torch.float64)
        assert type(exact) is type(method)
        assert {id(x) for x in exact.parameters()}.isdisjoint(id(x) for x in method.parameters())


@pytest.mark.parametrize("name", named(lambda method: method.any_params is not None))
@given(data=st.data(), N=st.integers(1, 70), causal=st.booleans(), shape=st.sampled_from(SHAPES))
@settings(max_examples=20, deadline=None)
def test_any_length_goes_together_with_any_parameters(
    name: str, data: Any, N: int, causal: bool, shape: dict[str, Any]
) -> None:
    variant = Variant(name, data.draw(declared()[name].any_params))
    asked = (variant.problem(**{"N": N, "causal": mask, **sizes}) for mask in (causal, not causal) for sizes in (shape, {}))
    call = Call(variant, next(problem for problem in asked if problem is not None))
    same(call.results(), call.exact(), 10 * call.off_by)  # a token that hardly sees itself is divided by little


@pytest.mark.parametrize("variant", each(lambda variant: variant.method.cuts))
def test_it_may_be_computed_in_any_portions(variant: Variant) -> None:
    for problem in variant.problems(45, {}):
        call = Call(variant, problem)
        want = call.exact()
        for constants in variant.method.cuts:
            with pytest.MonkeyPatch.context() as patch:
                for name, value in constants.items():
                    patch.setattr(name, value)
                same(call.results(), want, call.off_by)


@pytest.mark.parametrize("variant", each())
def test_every_call_and_every_backward_gives_the_same_bits_and_leaves_what_it_was_given(variant: Variant) -> None:
    call = Call(variant, variant.some(100))
    tensors = [x for x in (*call.inputs, call.choices, call.g) if x is not None]
    before = [x.detach().clone() for x in tensors]
    first, again = call.results(), call.results()
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert torch.equal(call.forward(), first[0])
    if call.g is not None:
        o, leaves = call.method(*call.inputs, **call.given), unique([*call.inputs, *call.method.parameters()])
        for _ in range(2):
            own = torch.autograd.grad(o, leaves, call.g, retain_graph=True, allow_unused=True, materialize_grads=True)
            assert all(torch.equal(a, b) for a, b in zip(own, first[1:], strict=True))
    assert all(torch.equal(x, y) for x, y in zip(tensors, before, strict=True))


@pytest.mark.parametrize("variant", each())
def test_inputs_and_gradients_may_lie_in_memory_in_any_order(variant: Variant) -> None:
    for problem in variant.problems(variant.some(37).N):
        call = Call(variant, problem)
        # one number for all, as that of a sum is
        spread = None if call.g is None else torch.ones((), dtype=call.g.dtype).expand_as(call.g)
        want = call.results(g=None if spread is None else spread.contiguous())
        for order in call.orders:
            same(call.results(inputs=turned(call.inputs, *order), g=spread), want, call.off_by)


@pytest.mark.parametrize("variant", each(lambda variant: variant.kind.independent))
def test_neither_other_samples_nor_other_heads_matter(variant: Variant) -> None:
    call = Call(variant, variant.some(70))
    # the same numbers in the third head of the second sample, others everywhere else
    changed = {id(x): y.clone() for x, y in zip(call.inputs, call.drawn(8), strict=True)}
    for x in call.inputs:
        # what chooses for all heads belongs to each
        head = 2 if x.shape[1] == call.problem.H else slice(None)
        changed[id(x)][1, head] = x[1, head].detach()
    before, after = call.forward(), call.forward(*(changed[id(x)] for x in call.inputs))
    same([after[1, 2]], [before[1, 2]], call.off_by / 100)
    assert not torch.equal(after[0], before[0])


@pytest.mark.parametrize(
    "variant", each(lambda x: any(x.problems(70, {"kv_heads": 2})) and x.name != "blocks.nsa" and not x.method.numbered)
)
def test_keys_that_serve_neighbouring_heads_do_as_if_each_head_had_them(variant: Variant) -> None:
    """Heads that share keys select together in NSA, and would not if each had its own."""
    for shared, apart in zip(variant.problems(70, {"kv_heads": 2}), variant.problems(70, {}), strict=True):
        call = Call(variant, shared)
        other, heads = variant.build(apart), apart.H // shared.kv_heads
        own = other.state_dict()
        known = {name: of_each_head(x, own[name], heads) for name, x in call.method.state_dict().items()}
        if any(x.shape != known[name].shape for name, x in own.items()):
            return  # of another number of heads, they are others
        other.load_state_dict(known)
        repeated = (x.repeat_interleave(heads, dim=1) if x.shape[1] == shared.kv_heads else x for x in call.inputs)
        with torch.no_grad():
            same([call.method(*call.inputs)], [other(*repeated)], call.off_by)
