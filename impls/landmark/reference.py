"""Attention through landmarks and over pooled keys by its definition: dense and slow.

B batch, H heads, K heads of k and v, N tokens, S landmarks or anchors, D query/key width, M value width.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def nystrom_attention(q: Tensor, k: Tensor, v: Tensor, landmarks: int, iterations: int, *, pooled: bool = False) -> Tensor:
    """Compute softmax(q k̃ᵀ / √D) A⁺ softmax(q̃ kᵀ / √D) v, A = softmax(q̃ k̃ᵀ / √D), A⁺ by that many iterations.

    Xiong et al. 2021, algorithm 1. [B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M]; q̃ and k̃ are the means of
    segments. `pooled`: all heads and samples share one scale of the first iterate.
    """
    means = segment_matrix(q.shape[2], landmarks, q)
    q_landmarks, k_landmarks = means @ q, means @ k
    from_landmarks, between, to_landmarks = (
        _softmax(a, b) for a, b in ((q, k_landmarks), (q_landmarks, k_landmarks), (q_landmarks, k))
    )
    return from_landmarks @ pseudo_inverse(between, iterations, pooled=pooled) @ to_landmarks @ v


def nystrom_rows(at: Tensor, q: Tensor, k: Tensor, v: Tensor, landmarks: int, iterations: int) -> Tensor:
    """Compute the same for the queries at tokens `at` of one head, in O(N S) memory.

    Int64 [n], [N, D] twice, [N, M] -> [n, M].
    """
    means = segment_matrix(len(q), landmarks, q)
    q_landmarks, k_landmarks = means @ q, means @ k
    summary = pseudo_inverse(_softmax(q_landmarks, k_landmarks), iterations) @ (_softmax(q_landmarks, k) @ v)
    return _softmax(q[at], k_landmarks) @ summary


def pseudo_inverse(a: Tensor, iterations: int, *, pooled: bool = False) -> Tensor:
    """Iterate Z_{j+1} = ¼ Z_j (13 I - A Z_j (15 I - A Z_j (7 I - A Z_j))), Z_0 = Aᵀ / (‖A‖_1 ‖A‖_∞): [..., S, S].

    Xiong et al. 2021, after Razavi et al. 2014. Norms are those of each matrix or, with `pooled`, the largest of all matrices.
    """
    one, infinity = a.abs().sum(-2).amax(-1), a.abs().sum(-1).amax(-1)
    if pooled:
        one, infinity = one.amax(), infinity.amax()
    z, eye = a.mT / (one * infinity)[..., None, None], torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    for _ in range(iterations):
        az = a @ z
        z = 0.25 * z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az)))
    return z


def segment_matrix(N: int, segments: int, like: Tensor) -> Tensor:
    """Build the matrix [S, N] that averages segments, whose lengths differ by one at most, the longer ones first."""
    length, longer = divmod(N, segments)
    lengths = torch.full((segments,), length, device=like.device)
    lengths[:longer] += 1
    segment_N = torch.arange(segments, device=like.device).repeat_interleave(lengths)
    members = (segment_N == torch.arange(segments, device=like.device)[:, None]).to(like.dtype)
    return members / members.sum(-1, keepdim=True)


def convolve(v: Tensor, kernel: Tensor) -> Tensor:
    """Compute Σ_t w_ht v_{h, n + t - T // 2}, zeros beyond the ends: [B, H, N, M], [H, T] -> [B, H, N, M].

    Heads are the channels of torch's 2D convolution, and its kernel is long along tokens.
    """
    return F.conv2d(v, kernel[:, None, :, None], padding=(kernel.shape[1] // 2, 0), groups=len(kernel))


def convolved_rows(at: Tensor, v: Tensor, kernel: Tensor) -> Tensor:
    """Compute the same at tokens `at` of one head: int64 [n], [N, M], [T] -> [n, M]."""
    places = at.unsqueeze(1) + torch.arange(len(kernel), device=at.device) - len(kernel) // 2
    inside = (places >= 0) & (places < len(v))
    return torch.einsum("nt,ntm->nm", kernel * inside, v[places.clamp(0, len(v) - 1)])


def pyramid_attention(q: Tensor, k: Tensor, v: Tensor, levels: tuple[int, ...]) -> Tensor:
    """Compute softmax(q k̂ᵀ / √D) v̂ over anchors: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M].

    Zhu et al. 2019, section 3.2; k̂ and v̂ are k and v pooled to 1, 9, 36, … means.
    """
    means, group = pooling_matrix(k.shape[2], levels, k), q.shape[1] // k.shape[1]
    keys, values = ((means @ x).repeat_interleave(group, dim=1) for x in (k, v))
    return _softmax(q, keys) @ values


def pooling_matrix(N: int, levels: tuple[int, ...], like: Tensor) -> Tensor:
    """Build adaptive average pooling as a matrix [S, N]: bin i of level n averages tokens ⌊iN/n⌋ … ⌈(i+1)N/n⌉ - 1."""
    rows = [(i * N // n, -(-(i + 1) * N // n)) for n in levels for i in range(n)]
    means = torch.zeros(len(rows), N, dtype=like.dtype, device=like.device)
    for row, (start, end) in zip(means, rows, strict=True):
        row[start:end] = 1 / (end - start)
    return means


def _softmax(a: Tensor, b: Tensor) -> Tensor:
    """Compute softmax(a bᵀ / √D)."""
    return (a @ b.mT / math.sqrt(a.shape[-1])).softmax(-1)
