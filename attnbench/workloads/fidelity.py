"""The fidelity pass: how close a method comes to the attention that it approximates, on the same inputs; never timed.

B batch, H heads, N tokens, M value width.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Attention
from attnbench.schema.cell import Cell, Inputs
from attnbench.schema.errand import Job
from attnbench.schema.outcome import COSINE, MASS_RECALL, OUTPUT_ERROR, TOP_OVERLAP, Failed, Measured, Outcome, Series, Status
from attnbench.workloads.inputs import draw_inputs
from attnbench.workloads.prepare import prepare
from attnbench.workloads.recording import Recording
from attnbench.workloads.setting import generator, keywords_of
from attnbench.workloads.weights import exact_weights, executed_weights

TOP_KEYS = 32
"""The number of keys of each query that count as its top keys."""
SEQUENCES = 8
"""The number of sequences that a method adapts to; none of them is measured."""
THE_SAME = "the inputs it is measured on"


def measure_fidelity(job: Job) -> Outcome:
    """Measure each metric once, in memory quadratic in N. Raises whatever the method raises."""
    setting = prepare(job)
    method, inputs = setting.method, setting.inputs
    adapted = adapt(method, setting.cell, job.seed)
    choices = method.choose(*inputs)
    o, exact = method(*inputs, **keywords_of(choices)), method.exact(*inputs)
    found = {OUTPUT_ERROR: output_error(o, exact), COSINE: cosine(o, exact)}
    if method.weighs:
        weights, exact = executed_weights(method, inputs, choices), exact_weights(method, inputs)
        found |= {MASS_RECALL: mass_recall(weights, exact), TOP_OVERLAP: top_overlap(weights, exact)}
    # the first sentence of the docstring of `exact` says what the method approximates
    approximated = (type(method).exact.__doc__ or "").strip().partition("\n")[0].partition(":")[0].rstrip(".")
    if bad := [name for name, value in found.items() if not math.isfinite(value)]:
        return Failed(status=Status.ERROR, reason=f"{bad[0]} is not a finite number: the output or the weights are none")
    return Measured(
        samples={name: Series(unit="1", values=(value,)) for name, value in found.items()},
        facts={
            "top_keys": min(TOP_KEYS, job.cell.problem.N),
            "exact": approximated,
            "threads": torch.get_num_threads(),
            **({"adapted": adapted} if adapted else {}),
        },
    )


def adapt(method: Attention, cell: Cell, seed: int) -> str:
    """Let a method learn what training would leave in it, such as a codebook, and say from which inputs; empty for most.

    Raises RecordingError, and whatever the method raises.
    """
    if type(method).adapt is Attention.adapt:
        return ""
    skip, left = 0, SEQUENCES
    if cell.inputs is Inputs.RECORDED:
        # the first sequences are measured; where the recording has no more, they are all there is to adapt to
        skip = cell.problem.B
        left = Recording.read(cell.recording).sequences - skip
    B = min(SEQUENCES, left) or cell.problem.B
    # the same seed gives the same order of a recording's sequences; otherwise the random numbers have to be others
    source = generator(cell, seed if skip else seed + 2)
    method.adapt(*draw_inputs(type(method), cell.reshaped(B=B), source, skip))
    return f"{B} other sequences" if left else THE_SAME


def mass_recall(found: Tensor, exact: Tensor, top: int = TOP_KEYS) -> float:
    """Return how much of the exact mass of each query's `top` keys lies on keys with weight above zero; [B, H, N, N] both."""
    mass, keys = exact.topk(min(top, exact.shape[-1]), dim=-1)
    kept = mass.where(found.gather(-1, keys) > 0, 0)
    return float((kept.sum(-1) / mass.sum(-1)).mean(dtype=torch.float64))


def top_overlap(found: Tensor, exact: Tensor, top: int = TOP_KEYS) -> float:
    """Return the share of the `top` exact keys that are also top keys by `found`, mean over queries; [B, H, N, N] both.

    Only weights above zero count, so a query that sees fewer keys has fewer; of equal weights the earlier key comes first.
    """
    wanted, got = _top(exact, top), _top(found, top)
    return float(((wanted & got).sum(-1) / wanted.sum(-1).clamp_min(1)).mean(dtype=torch.float64))


def cosine(o: Tensor, exact: Tensor) -> float:
    """Return the mean over queries of o·o* / (‖o‖ ‖o*‖), 0 where one is zero; [B, H, N, M] both."""
    return float(F.cosine_similarity(o.double(), exact.double(), dim=-1).mean())


def _top(weights: Tensor, top: int) -> Tensor:
    """Say of each weight whether it is above zero and among the `top` largest of its row."""
    order = weights.argsort(dim=-1, descending=True, stable=True)[..., :top]
    chosen = torch.zeros_like(weights, dtype=torch.bool).scatter_(-1, order, value=True)
    return chosen & (weights > 0)


def output_error(o: Tensor, exact: Tensor) -> float:
    """Return ‖o - o*‖ / ‖o*‖ over all of [B, H, N, M]."""
    return float((o - exact).double().norm() / exact.double().norm())
