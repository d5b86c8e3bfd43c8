"""The rows that a method is held against at the length it is timed at are its reference's, and so are their gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, registry
from attnbench.api import Attention, Cell, Workload

# one sample moves another by the norms that all share, so that no rows of one alone can be written down
WITHOUT = {"landmark.nystrom_attention"}
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "linear.chunked": [
        {"feature_map": "favor", "features": 12},
        *({"feature_map": name} for name in ("quadratic", "taylor", "cosine", "squared_relu")),
    ],
    "linear.recurrent": [{"feature_map": "efficient"}],
    "linear.full": [{"feature_map": "favor", "features": 12}, {"feature_map": "efficient"}],
    "lsh.reformer": [
        {"bucket_size": 16, "rounds": 1, "look_forward": True},
        {"bucket_size": 16, "across_buckets": False, "duplicates": "corrected", "temperature": "paper"},
    ],
    "sparse.strided": [{"mode": mode, "convention": "code"} for mode in ("per_head", "by_layer")],
    "sparse.fixed": [{"mode": "per_head", "c": 3, "stride": 12}, {"distinct": False}],
    "sparse.longformer": [{"window": 8, "dilation": 3, "globals": 2, "dilated_heads": 2}],
    "sparse.atrous": [{"stride": 4, "reach": 3}],
    "sparse.topk": [{"k": 3}],
    "vq.blockwise": [{"block": 16, "codes": 8}, {"block": 16, "codes": 8, "gradient_through_table": False}],
    "vq.gau": [{"block": 16, "codes": 8}],
    "blocks.moba": [{"block": 16, "topk": 2}],
    "blocks.nsa": [{"block": 8, "selected": 3, "window": 20}],
    "linformer.linformer": [{"k": 16, "sharing": sharing} for sharing in ("none", "key_value")],
    "linformer.convolution": [{"k": 16}],
    "landmark.nystrom": [{"landmarks": 10, "convolution_kernel": 5}],
    "gated.hgrn2": [{"lower_bound": 0.5}],
    "gated.lightning": [{"slopes": "fla", "layer": 1, "layers": 4}],
    "context.transformer_xl": [{"segment": 16, "memory": 8}],
    "context.adaptive_span": [{"span": 20, "ramp": 8}, {"span": 20, "ramp": 8, "sees_itself": True}],
    "delta.deltanet": [{"scale": 1.0}],
}
# reformer-pytorch is always there; what needs other packages is tested where they are
PEERS = {name for name in registry.catalogue() if registry.load(name).requires} - {"lsh.reformer_pytorch"}
INSTALLED = [
    pytest.mark.peers,
    # of the packages, at their import
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning"),
]
CASES = [
    pytest.param(name, params, marks=INSTALLED if name in PEERS else [], id=f"{name} {params}")
    for name in registry.catalogue()
    for params in ({}, *PARAMETERS.get(name, ()))
    if name not in WITHOUT
]


def on_a_cpu(name: str, params: dict[str, Any]) -> list[tuple[type[Attention], Problem]]:
    """The method on problems that it takes; none where it needs a GPU, a package or single precision."""
    method = registry.load(name)
    problems = [
        Problem(B=2, H=4, kv_heads=K, N=N, D=8, M=M, causal=causal, dtype="float64")
        for N in (1, 65, 192)
        for K, M in ((4, 8), (2, 5))
        for causal in (False, True)
    ]
    cells = [Cell(method=name, problem=p, params=params, workload=Workload.FORWARD_BACKWARD) for p in problems]
    found = [cell.problem for cell in cells if not registry.missing(method) and not method.refusal(cell)]
    return [(method, problem) for problem in found]


@pytest.mark.parametrize("name", [name for name in registry.catalogue() if name not in WITHOUT])
def test_every_method_has_rows(name: str) -> None:
    assert registry.load(name).rows is not Attention.rows


@pytest.mark.parametrize(("name", "params"), CASES)
def test_rows_and_their_gradients_are_those_of_the_reference(name: str, params: dict[str, Any]) -> None:
    for kind, problem in on_a_cpu(name, params):
        torch.manual_seed(0)
        method = kind(problem, **params).to(torch.float64)
        inputs = kind.inputs(problem, torch.Generator().manual_seed(1))
        leaves = list({id(x): x.requires_grad_() for x in inputs}.values())
        choices = method.choose(*inputs)
        whole = method.reference(*inputs, **({} if choices is None else {"choices": choices}))
        at = torch.tensor(sorted({0, problem.N // 3, problem.N // 2, problem.N - 1}))
        weights = torch.randn(problem.B, problem.H, len(at), problem.M, dtype=torch.float64)

        rows = torch.stack([rows_of(method, inputs, choices, at, b, h) for b in range(2) for h in range(4)])
        rows = rows.unflatten(0, (2, 4))

        torch.testing.assert_close(rows, whole[:, :, at], rtol=0, atol=1e-10)
        parameters = [*leaves, *method.parameters()]
        got = torch.autograd.grad((rows * weights).sum(), parameters, allow_unused=True, materialize_grads=True)
        want = torch.autograd.grad((whole[:, :, at] * weights).sum(), parameters, allow_unused=True, materialize_grads=True)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def rows_of(method: Attention, inputs: tuple[Tensor, ...], choices: Tensor | None, at: Tensor, b: int, h: int) -> Tensor:
    """Of one head of one sample, each different input cut once."""
    cut = {id(x): x[b, h * x.shape[1] // 4] for x in inputs}
    keywords: dict[str, Any] = {} if choices is None else {"choices": choices[b, h * choices.shape[1] // 4]}
    o: Tensor = method.rows(h, at, *(cut[id(x)] for x in inputs), **keywords)
    return o


@pytest.mark.parametrize(
    "name", ["softmax.naive", "linear.full", "linformer.mean", "pooling.key_value", "sparse.window_masked"]
)
def test_rows_do_not_see_what_a_mask_hides(name: str) -> None:
    method = registry.build(name, Problem(B=2, H=2, N=40, D=8, padding=0.5, dtype="float64"))
    q, k, v = type(method).inputs(method.problem, torch.Generator().manual_seed(1))
    key_mask = torch.arange(40) < torch.tensor([[30], [7]])
    whole = method.reference(q, k, v, key_mask=key_mask)  # type: ignore[call-arg]
    at = torch.tensor([0, 3, 39])
    rows: Any = method.rows
    torch.testing.assert_close(
        rows(1, at, q[1, 1], k[1, 1], v[1, 1], key_mask=key_mask[1]), whole[1, 1, at], rtol=0, atol=1e-10
    )


@pytest.mark.parametrize(
    "name", ["linear.chunked", "gated.mamba2", "delta.kda", "lsh.reformer", "vq.blockwise", "sparse.fixed"]
)
def test_rows_of_a_long_sequence_take_little_memory(name: str, tmp_path: Any) -> None:
    """N² numbers of float64 would be half a gigabyte here."""
    from attnbench.measure.profiler_memory import torch_profiler_peak

    method = registry.build(name, Problem(B=1, H=1, N=8192, D=8, causal=True))
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(1))
    choices = method.choose(*inputs)
    keywords: dict[str, Any] = {} if choices is None else {"choices": choices[0, 0]}
    rows: Any = method.rows
    peak = torch_profiler_peak(lambda: rows(0, torch.tensor([0, 5000, 8191]), *(x[0, 0] for x in inputs), **keywords))
    assert peak.bytes is not None
    assert peak.bytes < 8192**2 * 8 / 20
