"""Inputs by kind: peaked ones peak, clustered ones cluster, scales multiply, and whatever is normal stays what it was."""

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from attnbench import registry
from attnbench.schema.cell import Cell, Inputs, Workload
from attnbench.schema.errand import Job
from attnbench.schema.problem import Problem
from attnbench.workloads.inputs import CENTRES, SPREAD, clustered, draw_inputs, pairs, peaked
from attnbench.workloads.prepare import prepare
from attnbench.workloads.weights import exact_weights

SMALL = Problem(B=2, H=4, N=32, D=8)
SIZES = [(16, 64), (16, 2048), (32, 512), (64, 64), (64, 2048), (128, 64), (128, 2048)]
NEAR = 16
"""Of 256 numbers those of one centre are √128 apart, and others √512."""


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(name: str, p: Problem = SMALL, seed: int = 3, **fields: object) -> tuple[Tensor, ...]:
    cell = Cell.model_validate({"method": name, "problem": p, **fields})
    return draw_inputs(registry.load(name), cell, generator(seed))


def same(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def top_mass(name: str, p: Problem, inputs: tuple[Tensor, ...]) -> Tensor:
    """Of each query, the weight of the key with the most: [B, H, N]."""
    return exact_weights(registry.build(name, p), inputs).amax(-1)


@pytest.mark.parametrize("name", ["softmax.sdpa", "lsh.reformer", "delta.gated_deltanet", "gate_cases:SharedQK"])
def test_normal_inputs_are_the_method_s_own(name: str) -> None:
    p = SMALL.model_copy(update={"causal": True})
    assert same(drawn(name, p), registry.load(name).inputs(p, generator()))


@pytest.mark.parametrize("name", ["softmax.sdpa", "lsh.reformer"])
def test_a_scale_multiplies_queries_and_keys_and_leaves_values(name: str) -> None:
    plain, scaled = drawn(name), drawn(name, scale=0.25)
    for x, y, factor in zip(plain, scaled, (0.25, 0.25, 1.0), strict=True):
        assert torch.equal(x * factor, y)
    assert (scaled[0] is scaled[1]) == (plain[0] is plain[1])


def test_a_scale_comes_before_what_a_method_does_to_its_keys() -> None:
    p = SMALL.model_copy(update={"causal": True})
    plain, scaled = (drawn("delta.deltanet", p, scale=scale) for scale in (1.0, 0.25))
    for x, y in zip(plain, scaled, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("D", "N"), SIZES)
def test_most_of_the_mass_of_most_peaked_queries_lies_on_one_key(D: int, N: int, causal: bool) -> None:
    p = Problem(H=1, N=N, D=D, causal=causal)
    assert top_mass("softmax.sdpa", p, drawn("softmax.sdpa", p, inputs="peaked")).median() > 0.5


@pytest.mark.parametrize(("D", "N"), SIZES)
def test_tokens_that_are_queries_and_keys_want_the_other_of_their_pair(D: int, N: int) -> None:
    p = Problem(H=1, N=N, D=D)
    assert top_mass("lsh.full", p, drawn("lsh.full", p, inputs="peaked")).median() > 0.5


def test_the_wanted_key_of_a_peaked_query_may_be_any_that_it_sees() -> None:
    p = Problem(B=1, H=64, N=32, D=128)
    for causal in (False, True):
        q, k = peaked(p.model_copy(update={"causal": causal}), generator())
        wanted = (q @ k.mT / math.sqrt(128)).argmax(-1)
        later = (wanted > torch.arange(32)).float().mean()
        assert (later < 0.1) if causal else (0.4 < later < 0.6)
        assert len(set(wanted[:, :, -1].flatten().tolist())) > 20


def test_heads_that_share_a_key_want_keys_of_their_own() -> None:
    p = Problem(B=1, H=4, kv_heads=2, N=32, D=128)
    q, k = peaked(p, generator())
    assert (q.shape, k.shape) == ((1, 4, 32, 128), (1, 2, 32, 128))
    scores = q @ k.repeat_interleave(2, dim=1).mT / math.sqrt(128)
    # f √D, with f² / 2 - f √D + ln N + 2.5 = 0
    factor = math.sqrt(128) - math.sqrt(128 - 2 * (math.log(32) + 2.5))
    assert float(scores.amax(-1).mean()) == pytest.approx(factor * math.sqrt(128), rel=0.2)


@pytest.mark.parametrize(("N", "dtype"), [(1, "float32"), (2, "float64"), (33, "bfloat16")])
@pytest.mark.parametrize("kind", ["peaked", "clustered"])
@pytest.mark.parametrize("name", ["softmax.naive", "lsh.full", "delta.kda", "linformer.mean"])
def test_any_length_and_dtype_has_inputs_of_every_kind(name: str, kind: str, N: int, dtype: str) -> None:
    p = Problem(B=2, H=4, N=N, D=8, causal=name == "delta.kda", dtype=dtype)
    method = registry.load(name)
    inputs, plain = drawn(name, p, inputs=kind), method.inputs(p, generator())
    assert [x.shape for x in inputs] == [x.shape for x in plain]
    assert [x.stride() for x in inputs] == [x.stride() for x in plain]
    assert [x.dtype for x in inputs] == [x.dtype for x in plain]
    assert all(x.isfinite().all() for x in inputs)


def test_pairs_point_the_same_way_and_others_do_not() -> None:
    p = Problem(H=1, N=64, D=128)
    qk = torch.nn.functional.normalize(pairs(p, generator()), dim=-1)
    cosines = (qk @ qk.mT) * (1 - torch.eye(64))
    best = cosines.max(-1)
    assert best.values.min() > 0.85
    assert torch.equal(best.indices.gather(-1, best.indices), torch.arange(64).expand_as(best.indices))
    assert cosines.kthvalue(63, dim=-1).values.max() < 0.5


def test_clustered_tokens_lie_around_sixteen_centres_that_queries_and_keys_share() -> None:
    p = Problem(B=2, H=2, N=512, D=256)
    q, k = clustered(p, generator())
    assert float(q.var()) == pytest.approx(1, abs=0.1)
    both = torch.cat([q, k], dim=2)[0, 0]
    near = torch.cdist(both, both) < NEAR
    assert len({tuple(row.nonzero().flatten().tolist()) for row in near}) == CENTRES
    centre = both[near[0]].mean(0)
    assert float((both[near[0]] - centre).std()) == pytest.approx(SPREAD, rel=0.1)


def test_centres_are_the_same_in_every_draw_and_differ_between_heads() -> None:
    p = Problem(B=1, H=2, N=512, D=256)
    (_, first), (_, second) = clustered(p, generator(1)), clustered(p, generator(2))
    assert not torch.equal(first, second)
    assert torch.cdist(first[0, 0], second[0, 0]).amin(-1).max() < NEAR
    assert torch.cdist(first[0, 0], first[0, 1]).min() > NEAR


def test_gates_and_values_stay_normal_and_seeds_differ() -> None:
    p = Problem(H=2, N=2048, D=8, causal=True)
    for kind in ("peaked", "clustered"):
        *_, v, steps = drawn("gated.mamba2", p, inputs=kind)
        assert (float(v.mean()), float(v.std())) == pytest.approx((0, 1), abs=0.05)
        assert (steps > 0).all()
        assert not torch.equal(drawn("softmax.sdpa", p, inputs=kind)[0], drawn("softmax.sdpa", p, seed=4, inputs=kind)[0])
        assert same(drawn("softmax.sdpa", p, inputs=kind), drawn("softmax.naive", p, inputs=kind))


def test_a_measurement_takes_the_inputs_that_its_cell_states() -> None:
    for workload in (Workload.FORWARD, Workload.FORWARD_BACKWARD, Workload.FIDELITY):
        cell = Cell(method="softmax.sdpa", problem=SMALL, inputs=Inputs.CLUSTERED, scale=2.0, workload=workload)
        setting = prepare(Job(cell=cell, seed=3))
        assert same(setting.inputs, drawn("softmax.sdpa", inputs="clustered", scale=2.0))
        setting.call()


def test_tokens_that_are_decoded_are_of_the_kind_too() -> None:
    p = SMALL.model_copy(update={"causal": True})
    for workload in (Workload.DECODE, Workload.DECODE_TOTAL):
        cell = Cell(method="softmax.sdpa", problem=p, inputs=Inputs.CLUSTERED, scale=100.0, workload=workload)
        token = prepare(Job(cell=cell, seed=3)).inputs
        assert token[0].abs().mean() > 10 > token[2].abs().max()


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    tensors = {name: torch.randn(6, 4, 40, 8, generator=generator(i)) for i, name in enumerate(("q", "k", "v"))}
    save_file(tensors, tmp_path / "made.safetensors")
    return str(tmp_path / "made.safetensors")


def test_recorded_inputs_are_those_of_the_file(recorded: str) -> None:
    held = torch.stack([torch.randn(6, 4, 40, 8, generator=generator(i)) for i in range(3)])
    found = torch.stack(drawn("softmax.sdpa", inputs="recorded", recording=recorded))
    places = [s for s in range(6) if torch.equal(held[:, s, :, :32], found[:, 0])]
    assert len(places) == 1
    qk, again, v = drawn("lsh.reformer", inputs="recorded", recording=recorded)
    assert qk is again
    assert torch.equal(qk, found[1])
    assert torch.equal(v, found[2])
    assert torch.equal(drawn("softmax.sdpa", inputs="recorded", recording=recorded, scale=3.0)[1], 3 * found[1])


def test_sequences_of_a_recording_differ_between_seeds_and_those_that_are_skipped_are_others(recorded: str) -> None:
    method = registry.load("softmax.sdpa")
    cell = Cell(method="softmax.sdpa", problem=SMALL, inputs=Inputs.RECORDED, recording=recorded)
    seen = [tuple(draw_inputs(method, cell, generator(), skip)[0][:, 0, 0, 0].tolist()) for skip in (0, 2, 4, 6)]
    assert len({x for pair in seen[:3] for x in pair}) == 6
    assert seen[3] == seen[0]
    assert len({tuple(drawn("softmax.sdpa", seed=s, inputs="recorded", recording=recorded)[0][0, 0, 0]) for s in range(9)}) > 1
