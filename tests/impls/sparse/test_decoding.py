"""Decoding sees what the definition sees, from no more than later queries still need."""

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench import Problem
from attnbench.api import Cost, Workload, io_bytes
from attnbench.workloads.decoding import cut
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant
from tests.impls.sparse.strategies import PATTERNS


def called(name: str, params: dict[str, Any], **shape: Any) -> Call:
    """Of the eager form, whose decoding is that of all."""
    problem = Problem(**{"B": 2, "H": 4, "N": 41, "D": 8, "causal": True, "dtype": "float64", **shape})
    return Call(Variant(f"sparse.{name}", params), problem)


@given(st.data(), PATTERNS, st.sampled_from([(1, 1), (2, 1), (3, 3), (4, 2)]), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_any_pattern_of_any_length_decodes(data: Any, pattern: Any, heads: tuple[int, int], tokens: int) -> None:
    params = {name: value for name, value in asdict(pattern).items() if value is not None}
    call = called(type(pattern).__name__.lower(), params, B=1, H=heads[0], kv_heads=heads[1], N=tokens, D=2)
    same([call.decoded(data.draw(st.integers(0, tokens)))], call.exact()[:1], 1e-10)


def kept(name: str, tokens: int = 60, n: int = 0, **params: Any) -> float:
    """Entries of a state: pairs of a key and a value, for one head of k and v."""
    call = called(name, params, N=tokens)
    _, state = call.method.prefill(*cut(call.inputs, n), capacity=tokens)
    return float(call.method.state_bytes(state)) / (2 * 4 * (8 + 8) * 8)


@pytest.mark.parametrize("n", [0, 31, 60])
def test_the_state_holds_what_can_still_be_seen_and_no_more(n: int) -> None:
    # a residue's last two are seen from nowhere but near: l + 1 and l (N / l - 2)
    assert kept("strided", n=n, stride=5) == 6 + 5 * 10
    assert kept("strided", n=n, stride=5, convention="code") == 5 + 5 * 11
    assert kept("strided", n=n, stride=5, mode="by_layer") == 6
    assert kept("strided", n=n, stride=5, mode="by_layer", layer=1) == 60
    # the current block, and c of each but the last
    assert kept("fixed", n=n, stride=10, c=3) == 10 + 3 * 5
    assert kept("fixed", n=n, stride=10, c=3, mode="by_layer") == 10
    assert kept("fixed", n=n, stride=10, c=3, mode="by_layer", layer=1) == 3 * 6
    assert kept("local", n=n, stride=5) == 6
    assert kept("local", n=n, stride=5, convention="code") == 5
    assert kept("atrous", n=n, stride=5) == 60
    assert kept("atrous", n=n, stride=5, reach=2) == 5 * 3
    assert kept("window", n=n, window=7) == 7
    assert kept("longformer", n=n, window=7, globals=3) == 7 + 3
    assert kept("longformer", n=n, window=7, globals=3, dilation=4) == 4 * 7 + 3
    # heads with patterns of their own have caches of their own: two of four keep the near tokens, two all
    assert kept("strided", n=n, stride=5, mode="per_head") == (2 * 6 + 2 * 60) / 4
    assert kept("fixed", n=n, stride=10, c=3, mode="per_head") == (2 * 10 + 2 * 18) / 4
    assert kept("longformer", n=n, window=7, globals=0, dilation=2, dilated_heads=1) == (3 * 7 + 14) / 4


def test_a_state_does_not_grow_with_what_it_need_not_keep_and_room_for_no_token_takes_none() -> None:
    assert kept("window", tokens=1000, window=7) == 7
    assert kept("window", tokens=4, window=7) == 4
    assert kept("fixed", tokens=1000, stride=10, c=1) == 10 + 99
    assert kept("longformer", tokens=3, window=7, globals=3) == 3
    for name in ("strided", "fixed", "local", "atrous", "window", "longformer"):
        call = called(name, {})
        _, empty = call.method.prefill(*cut(call.inputs, 0), capacity=0)
        with pytest.raises(ValueError, match="token 1 is beyond the capacity of 0"):
            call.method.step(*cut(call.inputs, 1), state=empty)


def cost(name: str, params: dict[str, Any], **shape: Any) -> tuple[Problem, Cost]:
    call = called(name, params, **shape)
    return call.problem, type(call.method).cost(call.problem, params, Workload.DECODE)


def test_a_step_costs_the_keys_that_are_seen_wherever_it_stands_and_columns_grow_slowly() -> None:
    # 16 tokens before and the own one, read and written; B = 2, two heads of k and v, D = M = 8, float64
    problem, found = cost("local", {"stride": 16}, kv_heads=2)
    assert found.traffic_bytes == io_bytes(problem, Workload.DECODE) + 2 * 2 * (17 + 1) * (8 + 8) * 8
    assert found.exact_flops == 2 * 2 * 4 * 17 * (8 + 8)
    (_, near), (_, far) = (cost("window", {"window": 8}, N=n) for n in (100, 1000))
    assert (near.exact_flops, near.traffic_bytes) == (far.exact_flops, far.traffic_bytes)
    (_, near), (_, far) = (cost("strided", {"stride": 8}, N=n) for n in (800, 1600))
    assert far.exact_flops - near.exact_flops == 2 * 2 * 4 * 100 * (8 + 8)
