"""Hidden keys do not exist: not in an output, not in its last bit, nor in a gradient; a query that sees none gives 0.

Documents in one row hide each other: each is by itself.
"""

from itertools import product

import pytest
import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Cell, Problem, padding_mask
from tests.impls.contract.calls import Call, evaluated, mapped, same
from tests.impls.contract.subjects import Variant, each

MASKED = each(lambda variant: variant.kind.masks)


def with_holes(B: int, N: int, share: float) -> Tensor:
    """Random holes; of three samples the first sees nothing at first, the second nothing at all."""
    mask = torch.rand(B, N, generator=torch.Generator().manual_seed(N)) >= share
    mask[0, : min(3, N // 2)] = False
    mask[1] = False
    return mask


def off_by(call: Call) -> float:
    """How far off a number may be: the squares of a few products may add up to almost nothing, by which it divides."""
    return 1e-8 if call.variant.params.get("feature_map") == "quadratic" else call.off_by


@pytest.mark.parametrize("N", [1, 2, 33, 97])
@pytest.mark.parametrize("variant", MASKED)
def test_a_masked_call_is_its_definition_and_hidden_keys_get_no_gradient(variant: Variant, N: int) -> None:
    for problem, share in product(variant.problems(N, B=3), (0.4, 0.9)):
        call, mask = Call(variant, problem), with_holes(3, N, share)
        got = call.results(key_mask=mask)
        same(got, call.exact(key_mask=mask), off_by(call))
        assert not got[0][1].any()
        assert not any(x[1].any() for x in got[1:4])
        assert not any(x.transpose(1, 2)[~mask].any() for x in got[2:4])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("variant", MASKED)
def test_in_any_dtype_hidden_keys_cannot_be_seen_and_who_sees_none_moves_nothing(variant: Variant, dtype: str) -> None:
    for problem in variant.problems(33, {}, B=3, padding=0.5, dtype=dtype):
        call, eps = Call(variant, problem), 4 * torch.finfo(getattr(torch, dtype)).eps
        q, k, v, *gates = call.inputs
        # scores and features of such a key overflow, or would outweigh a mask that is added
        large = 3e4 if dtype == "float16" else 1e30
        for mask in (padding_mask(problem, "cpu"), with_holes(3, 33, 0.4)):
            assert mask is not None
            hidden = ~mask[:, None, :, None]
            moved = q, k.masked_fill(hidden, large), v.masked_fill(hidden, 1000), *gates
            # of other people's code no bit is promised
            same([call.forward(*moved, key_mask=mask)], [call.forward(key_mask=mask)], call.off_by)
        masked = call.forward(key_mask=torch.ones(3, 33, dtype=torch.bool))
        torch.testing.assert_close(masked, call.forward(), rtol=eps, atol=eps)
        if variant.trains(problem):
            results = call.results(inputs=moved, key_mask=mask)
            assert all(x.isfinite().all() for x in results)
            # output and gradients of q, k and v: of the second sample, and of the others
            assert not any(x[1].any() for x in results[:4])
            assert results[0].any()
            assert results[3].any()


@pytest.mark.parametrize("variant", MASKED)
def test_a_padded_sequence_is_what_it_is_by_itself(variant: Variant) -> None:
    for problem in variant.problems(30, B=3, padding=0.6):
        call, mask = Call(variant, problem), padding_mask(problem, "cpu")
        assert mask is not None
        assert tuple(mask.sum(1).tolist()) == problem.lengths
        if variant.method.by_length:
            return
        o, r = call.forward(key_mask=mask), call.exact(key_mask=mask)[0]
        for b, n in enumerate(problem.lengths):
            alone = mapped(call.inputs, lambda x, b=b, n=n: x[b : b + 1, :, :n].detach())  # type: ignore[misc]  # bound at once
            want = call.method.reference(*alone)
            same([o[b : b + 1, :, :n], r[b : b + 1, :, :n]], [want, want], off_by(call))


LENGTHS = (23, 1, 40, 6)


@pytest.mark.parametrize("variant", each(lambda variant: variant.kind.packs and any(variant.problems(sum(LENGTHS), {}))))
def test_packed_documents_are_those_that_are_attended_alone(variant: Variant) -> None:
    for problem in variant.problems(sum(LENGTHS), {"B": 1}, {"B": 1, "kv_heads": 2}):
        row = problem.model_copy(update={"documents": LENGTHS})
        call = Call(Variant(f"{variant.name}+packed", variant.params), row, trains=variant.trains(row))
        parameters = dict(call.method.named_parameters())

        def one_by_one(*inputs: Tensor, call: Call = call, parameters: dict[str, Tensor] = parameters) -> Tensor:
            outputs = []
            for part in zip(*(x.split(LENGTHS, 2) for x in inputs), strict=True):
                single = variant.build(call.problem.model_copy(update={"N": part[0].shape[2], "documents": None}))
                single.load_state_dict(call.method.state_dict())
                # the parameters of the one method, so that gradients can be compared
                outputs.append(torch.func.functional_call(single, parameters, part))
            return torch.cat(outputs, 2)

        want = evaluated(one_by_one, call.inputs, call.g, list(parameters.values()))
        same(call.results(), want, max(1e-10 if row.dtype == "float64" else 1e-4, variant.method.off_by))
        same([call.method.reference(*call.inputs)], want[:1], 1e-9 if row.dtype == "float64" else 1e-3)


def test_what_can_not_be_packed_says_why() -> None:
    for method, padding, why in (
        ("softmax.sdpa+packed", 0.5, None),
        ("softmax.sdpa+packed", 0.0, "set padding"),
        ("lsh.reformer+packed", 0.5, "documents of any length"),
    ):
        said = registry.load(method).refusal(Cell(method=method, problem=Problem(B=4, N=64, causal=True, padding=padding)))
        assert said is None if why is None else why in (said or "")
