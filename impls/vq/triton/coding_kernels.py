"""The kernels that come before attention: queries and keys are normalised, and keys become codes.

B batch, H heads, N tokens, S codes, D query/key width, BD the power of two above it, BK and BS keys and codes of a tile. A
tensor is given by its pointer and its strides over batch, heads and tokens where it has any; its last dimension is dense.
Results are dense, [B, H, N, ·].

Products take OPERAND (bfloat16, float16, or float32 by PRECISION), all else is float32.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, untyped-decorator, import-untyped, import-not-found"
# ruff: noqa: ANN001, ANN201, N803, PLR0913, PLR0917 - kernels take flat arguments, all alike, in one body

import triton
import triton.language as tl

from .kernels import load_rows, of_head, operand, store_rows

# whole numbers that change with the shape alone: one compilation does for all of their values
SHAPE = ["H", "N", "S"]


@triton.jit
def whereabouts(N, BLOCK: tl.constexpr):
    """Find this program's head, and the tokens of its tile."""
    tiles = tl.cdiv(N, BLOCK)
    return tl.program_id(0) // tiles, tl.program_id(0) % tiles * BLOCK + tl.arange(0, BLOCK)


@triton.jit(do_not_specialize=SHAPE)
def normalise_kernel(
    x, y,
    H, N,
    x_b, x_h, x_n, factor,
    D: tl.constexpr, BD: tl.constexpr, BK: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """Compute y = `factor` x / √(mean x² + EPS)."""
    head, token = whereabouts(N, BK)
    row = load_rows(of_head(x, head, H, x_b, x_h), token, token < N, D, x_n, BD).to(tl.float32)
    r = factor / tl.sqrt(tl.sum(row * row, 1) / D + EPS)
    store_rows(y + head.to(tl.int64) * N * D, token, token < N, D, D, row * r[:, None], BD)


@triton.jit(do_not_specialize=SHAPE)
def normalise_back_kernel(
    x, g, dx,
    H, N,
    x_b, x_h, x_n, g_b, g_h, g_n, factor,
    D: tl.constexpr, BD: tl.constexpr, BK: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """Compute dx = r (g - x (x·g) r² / (factor² D)), with r what x was multiplied by: the part of g along x is removed."""
    head, token = whereabouts(N, BK)
    row = load_rows(of_head(x, head, H, x_b, x_h), token, token < N, D, x_n, BD).to(tl.float32)
    u = load_rows(of_head(g, head, H, g_b, g_h), token, token < N, D, g_n, BD).to(tl.float32)
    inverse = 1 / tl.sqrt(tl.sum(row * row, 1) / D + EPS)
    along = tl.sum(row * u, 1) * inverse * inverse / D
    slope = (u - row * along[:, None]) * (factor * inverse)[:, None]
    store_rows(dx + head.to(tl.int64) * N * D, token, token < N, D, D, slope, BD)


@triton.jit(do_not_specialize=SHAPE)
def nearest_kernel(
    k, parts, half_norms, codes,
    H, N, S,
    k_b, k_h, k_n,
    D: tl.constexpr, BD: tl.constexpr, BK: tl.constexpr, BS: tl.constexpr, PARTS: tl.constexpr,
    ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute argmin_s ‖c_s‖²/2 - k_j·c_s, the first of equals, without a distance in memory.

    The codebook is the sum of its `parts`, dense [PARTS, H, S, D], the smallest first.
    """
    head, token = whereabouts(N, BK)
    first = (head % H).to(tl.int64) * S
    y = operand(load_rows(of_head(k, head, H, k_b, k_h), token, token < N, D, k_n, BD), ROUNDED, OPERAND)
    least = tl.full([BK], float("inf"), tl.float32)
    code = tl.zeros([BK], tl.int32)
    for at in range(0, S, BS):
        s = at + tl.arange(0, BS)
        product = tl.zeros([BK, BS], tl.float32)
        for part in tl.static_range(PARTS):
            c = operand(load_rows(parts + (part * H * S + first) * D, s, s < S, D, D, BD), ROUNDED, OPERAND)
            product = tl.dot(y, tl.trans(c), acc=product, input_precision=PRECISION)
        distances = tl.load(half_norms + first + s, mask=s < S, other=float("inf"))[None, :] - product
        found, place = tl.min(distances, 1, return_indices=True, return_indices_tie_break_left=True)
        code = tl.where(found < least, at + place, code)
        least = tl.minimum(found, least)
    tl.store(codes + head.to(tl.int64) * N + token, code.to(tl.int64), mask=token < N)


@triton.jit(do_not_specialize=SHAPE)
def rows_kernel(
    codes, codebook, k_hat,
    H, N, S,
    c_b, c_h, c_n,
    D: tl.constexpr, BD: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Look up the row of each code in a dense codebook [H, S, D]."""
    head, token = whereabouts(N, BK)
    code = tl.load(of_head(codes, head, H, c_b, c_h) + token.to(tl.int64) * c_n, mask=token < N, other=0)
    found = load_rows(codebook + (head % H).to(tl.int64) * S * D, code, token < N, D, D, BD)
    store_rows(k_hat + head.to(tl.int64) * N * D, token, token < N, D, D, found, BD)
