"""Inputs by kind: peaked ones peak, clustered ones cluster, scales multiply, recorded ones are those of a file that fits."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from attnbench import registry
from attnbench.schema.cell import Cell, Inputs, Workload
from attnbench.schema.errand import Job
from attnbench.schema.problem import Problem
from attnbench.workloads.decoding import Sequence
from attnbench.workloads.inputs import CENTRES, SPREAD, clustered, draw_inputs, pairs, peaked
from attnbench.workloads.prepare import prepare
from attnbench.workloads.recording import NAMES, Recording, RecordingError
from attnbench.workloads.weights import exact_weights
from tests.workloads.conftest import same

SMALL = Problem(B=2, H=4, N=32, D=8)
SIZES = [(16, 64), (16, 2048), (32, 512), (64, 64), (64, 2048), (128, 64), (128, 2048)]
NEAR = 16
"""Of 256 numbers those of one centre are √128 apart, and others √512."""


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(name: str, p: Problem = SMALL, seed: int = 3, **fields: object) -> tuple[Tensor, ...]:
    cell = Cell.model_validate({"method": name, "problem": p, **fields})
    return draw_inputs(registry.load(name), cell, generator(seed))


@pytest.mark.parametrize("name", ["softmax.sdpa", "lsh.reformer", "delta.gated_deltanet", "gate_cases:SharedQK"])
def test_normal_inputs_are_the_method_s_own(name: str) -> None:
    p = SMALL.model_copy(update={"causal": True})
    assert same(drawn(name, p), registry.load(name).inputs(p, generator()))


@pytest.mark.parametrize("name", ["softmax.sdpa", "lsh.reformer"])
def test_a_scale_multiplies_queries_and_keys_and_leaves_values(name: str) -> None:
    plain, scaled = drawn(name), drawn(name, scale=0.25)
    assert same(scaled, tuple(x * factor for x, factor in zip(plain, (0.25, 0.25, 1.0), strict=True)))
    assert (scaled[0] is scaled[1]) == (plain[0] is plain[1])


@pytest.mark.parametrize("name", ["delta.deltanet", "delta.gated_deltanet", "delta.kda", "delta.mesa"])
def test_a_scale_comes_before_what_a_method_does_to_its_keys_and_leaves_gates_and_their_pace(name: str) -> None:
    p = SMALL.model_copy(update={"causal": True})
    plain, scaled = (drawn(name, p, scale=scale) for scale in (1.0, 0.25))
    torch.testing.assert_close(scaled, plain)


@pytest.mark.parametrize(("name", "causal"), [("softmax.sdpa", False), ("softmax.sdpa", True), ("lsh.full", False)])
@pytest.mark.parametrize(("D", "N"), SIZES)
def test_most_of_the_mass_of_most_peaked_queries_lies_on_one_key(D: int, N: int, name: str, causal: bool) -> None:
    """Where tokens are queries and keys, it is the other of their pair."""
    p = Problem(H=1, N=N, D=D, causal=causal)
    assert exact_weights(registry.build(name, p), drawn(name, p, inputs="peaked")).amax(-1).median() > 0.5


def test_the_wanted_key_of_a_peaked_query_may_be_any_that_it_sees() -> None:
    p = Problem(B=1, H=64, N=32, D=128)
    for causal in (False, True):
        q, k = peaked(p.model_copy(update={"causal": causal}), generator())
        wanted = (q @ k.mT / math.sqrt(128)).argmax(-1)
        later = (wanted > torch.arange(32)).float().mean()
        assert (later < 0.1) if causal else (0.4 < later < 0.6)
        assert len(set(wanted[:, :, -1].flatten().tolist())) > 20


def test_heads_that_share_a_key_want_keys_of_their_own() -> None:
    q, k = peaked(Problem(B=1, H=4, kv_heads=2, N=32, D=128), generator())
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
    assert [(x.shape, x.stride(), x.dtype) for x in inputs] == [(x.shape, x.stride(), x.dtype) for x in plain]
    assert all(x.isfinite().all() for x in inputs)


def test_pairs_point_the_same_way_and_others_do_not() -> None:
    qk = torch.nn.functional.normalize(pairs(Problem(H=1, N=64, D=128), generator()), dim=-1)
    cosines = (qk @ qk.mT) * (1 - torch.eye(64))
    best = cosines.max(-1)
    assert best.values.min() > 0.85
    assert torch.equal(best.indices.gather(-1, best.indices), torch.arange(64).expand_as(best.indices))
    assert cosines.kthvalue(63, dim=-1).values.max() < 0.5


def test_clustered_tokens_lie_around_sixteen_centres_of_queries_and_keys_that_are_those_of_every_draw() -> None:
    p = Problem(B=2, H=2, N=512, D=256)
    (q, k), (_, other) = (clustered(p, generator(seed)) for seed in (1, 2))
    assert float(q.var()) == pytest.approx(1, abs=0.1)
    both = torch.cat([q, k], dim=2)[0, 0]
    near = torch.cdist(both, both) < NEAR
    assert len({tuple(row.nonzero().flatten().tolist()) for row in near}) == CENTRES
    assert float((both[near[0]] - both[near[0]].mean(0)).std()) == pytest.approx(SPREAD, rel=0.1)
    assert not torch.equal(k, other)
    assert torch.cdist(k[0, 0], other[0, 0]).amin(-1).max() < NEAR
    assert torch.cdist(k[0, 0], k[0, 1]).min() > NEAR, "each head has centres of its own"


def test_gates_and_values_stay_normal_and_seeds_differ() -> None:
    p = Problem(H=2, N=2048, D=8, causal=True)
    for kind in ("peaked", "clustered"):
        *_, v, steps = drawn("gated.mamba2", p, inputs=kind)
        assert (float(v.mean()), float(v.std())) == pytest.approx((0, 1), abs=0.05)
        assert (steps > 0).all()
        assert not torch.equal(drawn("softmax.sdpa", p, inputs=kind)[0], drawn("softmax.sdpa", p, seed=4, inputs=kind)[0])
        assert same(drawn("softmax.sdpa", p, inputs=kind), drawn("softmax.naive", p, inputs=kind))


@pytest.mark.parametrize("workload", ["forward", "forward_backward", "fidelity", "decode", "decode_total"])
def test_a_measurement_takes_the_inputs_that_its_cell_states_also_token_by_token(workload: str) -> None:
    p = SMALL.model_copy(update={"causal": True})
    kind: dict[str, Any] = {"inputs": Inputs.CLUSTERED, "scale": 100.0}
    made = prepare(Job(cell=Cell(method="softmax.sdpa", problem=p, workload=Workload(workload), **kind), seed=3))
    if workload.startswith("decode"):
        assert made.inputs[0].abs().mean() > 10 > made.inputs[2].abs().max()
    else:
        assert same(made.inputs, drawn("softmax.sdpa", p, **kind))
    made.call()


def test_a_peaked_query_that_is_decoded_wants_its_own_key_among_all_that_it_sees() -> None:
    p = Problem(B=2, H=4, N=2048, D=64, causal=True)
    q, k, _ = prepare(Job(cell=Cell(method="softmax.sdpa", problem=p, workload=Workload.DECODE, inputs=Inputs.PEAKED))).inputs
    assert float((q * k).sum(-1).mean() / math.sqrt(64)) > math.log(2048)


Shapes = dict[str, tuple[int, ...]]
WHOLE: Shapes = dict.fromkeys(NAMES, (6, 8, 64, 16))


def write(path: Path, shapes: Shapes = WHOLE, dtype: torch.dtype = torch.float32) -> str:
    """A file whose numbers count up, so that each tells where it stood."""
    tensors = {name: torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype) for name, shape in shapes.items()}
    save_file(tensors, path / "made.safetensors")
    return str(path / "made.safetensors")


def fitting(**fields: object) -> Problem:
    return Problem(**{"B": 2, "H": 8, "N": 64, "D": 16, **fields})


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    return write(tmp_path)


def test_recorded_inputs_are_those_of_the_file_scaled_as_any(recorded: str) -> None:
    kind: dict[str, Any] = {"p": fitting(), "inputs": "recorded", "recording": recorded}
    q, k, v = drawn("softmax.sdpa", **kind)
    held = Recording.read(recorded)
    places = [int(x[0, 0, 0]) // held.q[0].numel() for x in q]
    assert same((q, k, v), (held.q[places], held.k[places], held.v[places]))
    qk, again, values = drawn("lsh.reformer", **kind)
    assert qk is again
    assert same((qk, values), (k, v))
    assert torch.equal(drawn("softmax.sdpa", scale=3.0, **kind)[1], 3 * k)


def test_tokens_that_are_decoded_are_those_of_the_recording_in_their_order(recorded: str) -> None:
    kind: dict[str, Any] = {"inputs": Inputs.RECORDED, "recording": recorded}
    p = fitting(N=5, causal=True)
    whole = drawn("softmax.sdpa", p, **kind)
    cells = (Cell(method="softmax.sdpa", problem=p, workload=w, **kind) for w in (Workload.DECODE, Workload.DECODE_TOTAL))
    last, first = (prepare(Job(cell=cell, seed=3)) for cell in cells)
    assert same(last.inputs, tuple(x[:, :, 4:] for x in whole))
    assert isinstance(first, Sequence)
    assert same(tuple(torch.cat(tokens, 2) for tokens in zip(*first.pool, strict=True)), whole)


def test_sequences_of_a_recording_differ_between_seeds_and_those_that_are_skipped_are_others(recorded: str) -> None:
    method, kind = registry.load("softmax.sdpa"), {"inputs": "recorded", "recording": recorded}
    cell = Cell.model_validate({"method": "softmax.sdpa", "problem": fitting(), **kind})
    seen = [tuple(draw_inputs(method, cell, generator(), skip)[0][:, 0, 0, 0].tolist()) for skip in (0, 2, 4, 6)]
    assert len({x for pair in seen[:3] for x in pair}) == 6
    assert seen[3] == seen[0]
    assert len({float(drawn("softmax.sdpa", fitting(), seed, **kind)[0][0, 0, 0, 0]) for seed in range(9)}) > 1


def test_it_takes_the_first_tokens_of_the_sequences_that_are_asked_for_and_spreads_fewer_heads_over_all(tmp_path: Path) -> None:
    recording = Recording.read(write(tmp_path, {**WHOLE, "v": (6, 8, 64, 24)}))
    cut = recording.cut(fitting(H=4, kv_heads=2, M=24, N=5), torch.tensor([2, 0]))
    wanted = {"q": recording.q[:, [0, 2, 4, 6]], "k": recording.k[:, [0, 4]], "v": recording.v[:, [0, 4]]}
    assert cut.keys() == wanted.keys()
    assert all(torch.equal(cut[name], wanted[name][[2, 0], :, :5]) for name in NAMES)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("shape", "sequences"), [((8, 64, 16), 1), ((3, 8, 64, 16), 3), ((2, 3, 8, 64, 16), 6)])
def test_a_recording_has_three_dimensions_or_more_of_any_float(
    shape: tuple[int, ...], sequences: int, dtype: torch.dtype, tmp_path: Path
) -> None:
    found = Recording.read(write(tmp_path, dict.fromkeys(NAMES, shape), dtype))
    assert (found.sequences, found.q.dtype) == (sequences, dtype)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"N": 128}, "set N at most 64"),
        ({"B": 7}, "set B at most 6"),
        ({"H": 16}, "set H at most 8"),
        ({"D": 32, "M": 16}, "set D to 16"),
        ({"D": 16, "M": 8}, "set M to 16"),
        ({"N": 65, "D": 64}, "set N at most 64, D to 16, M to 16"),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(fields: dict[str, object], words: str, recorded: str) -> None:
    with pytest.raises(RecordingError) as raised:
        Recording.read(recorded).cut(fitting(**fields), torch.tensor([0]))
    held = "holds 6 sequences of 8 heads and 64 tokens, keys 16 wide and values 16,"
    assert str(raised.value).startswith(f"{recorded}: {held}")
    assert str(raised.value).endswith(words)


@pytest.mark.parametrize(
    ("shapes", "dtype", "words"),
    [
        ({"q": (8, 64, 16), "k": (8, 64, 16)}, "float32", "holds k, q; recorded inputs need q, k and v, and v is missing"),
        ({**WHOLE, "v": (6, 8, 63, 16)}, "float32", "v [6, 8, 63, 16]; they must be of the same sequences"),
        ({**WHOLE, "k": (6, 8, 64, 8)}, "float32", "q as wide as k"),
        (dict.fromkeys(NAMES, (0, 8, 64, 16)), "float32", "must be of the same sequences"),
        ({**WHOLE, "q": (64, 16)}, "float32", "q is torch.float32 [64, 16]; floating-point numbers [sequences, heads, "),
        (WHOLE, "int64", "q is torch.int64 [6, 8, 64, 16]; floating-point numbers [sequences, heads, tokens, width] are right"),
    ],
)
def test_a_file_of_something_else_says_what_it_holds(shapes: Shapes, dtype: str, words: str, tmp_path: Path) -> None:
    file = write(tmp_path, shapes, getattr(torch, dtype))
    with pytest.raises(RecordingError) as raised:
        Recording.read(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert words in str(raised.value)


def test_no_file_and_no_safetensors_are_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"not at all")
    for name in ("absent", "other"):
        with pytest.raises(RecordingError, match=f"{name}: cannot be read as safetensors: "):
            Recording.read(str(tmp_path / name))
