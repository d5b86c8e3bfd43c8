"""The kernels of causal linear attention by chunks, on tensor cores.

B batch, H heads, N tokens, D query/key width, M value width, BD and BM the powers of two above them, L tokens of a chunk, T
tokens of a segment (whole chunks), BO columns of the result. Each program walks through one segment of one head for BO columns
of its result, with that part of the M × D state in registers; neighbouring programs read the same rows. A tensor is given
by its pointer and its strides over batch, heads and tokens; its last dimension is dense. In docstrings f stands for φ(q) and
φ(k), d for the denominator, g for dL/do and c_i for g_i·o_i.

Products take operands of KIND (tuning.Arithmetic) by PRECISION, sums are float32. On a GPU most time goes to instructions, not
to memory or products, so φ is computed once for each place of a tile. Triton computes it again for each layout in which a tile
is taken; hence states have the rows of v or g in front, which are taken transposed from where they were loaded, and the
normaliser is multiplied on tensor cores.

Tokens beyond N are loaded as 0. They come after all others, so that the keys among them reach no result; their queries have
g = 0 and c = 0. Columns beyond D are loaded as -inf where φ follows, since φ(-inf) = 0 for every map here.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, untyped-decorator, import-untyped, import-not-found"
# ruff: noqa: ANN001, ANN201, ARG001, N803, PLR0913, PLR0917 - kernels take flat arguments, all alike, in one body

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
"""exp(x) = exp2(LOG2_E x); exp2 is one instruction, while exp takes more for results below 1e-38."""


@triton.jit
def phi(x, PHI: tl.constexpr):
    """Compute φ(x) in float32."""
    # what is not a number stays none
    positive = tl.maximum(x, 0, propagate_nan=tl.PropagateNan.ALL)
    if PHI == "elu_plus_one":
        return positive + tl.exp2(tl.minimum(LOG2_E * x, 0))
    elif PHI == "relu":
        return positive
    else:
        return positive * positive


@triton.jit
def slope(x, PHI: tl.constexpr):
    """Compute φ'(x) in float32."""
    if PHI == "elu_plus_one":
        return tl.exp2(tl.minimum(LOG2_E * x, 0))
    elif PHI == "relu":
        return tl.where(x > 0, 1.0, 0.0)
    else:
        return 2 * tl.maximum(x, 0)


@triton.jit
def operand(x, KIND: tl.constexpr, OPERAND: tl.constexpr):
    """Round a computed tile for a product, and keep it in a dtype that holds it; those that were loaded go as they are."""
    if KIND == "bf16":
        return x.to(tl.bfloat16).to(OPERAND)
    elif KIND == "tf32":
        # to the nearest with 10 bits of mantissa; Hopper's tensor cores by themselves round towards 0
        x = x.to(tl.float32)
        rounded = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
        # that sum may make a number of a NaN, and 0 x keeps it one, as it makes one of an infinity; a choice by x == x instead
        # spills 4 KiB of each thread on an A100 where D = 128
        return tl.fma(x, 0.0, rounded)
    else:
        return x.to(OPERAND)


@triton.jit
def of_head(x, head, H, stride_b, stride_h):
    """Find where the tokens of one head begin, also beyond 2³¹ elements."""
    return x + (head // H).to(tl.int64) * stride_b + (head % H).to(tl.int64) * stride_h


@triton.jit
def whereabouts(splits: tl.constexpr, segments, BO: tl.constexpr):
    """Find this program's first column of the result, its head and its segment; columns change fastest."""
    split, walk = tl.program_id(0) % splits, tl.program_id(0) // splits
    return split * BO, walk // segments, walk % segments


@triton.jit
def load_rows(x, start, stop, offset, width, stride, L: tl.constexpr, BW: tl.constexpr, other: tl.constexpr):
    """Load tokens start … start + L of one head, BW columns from `offset` on: [L, BW]."""
    row, column = tl.arange(0, L)[:, None], offset + tl.arange(0, BW)[None, :]
    at = x + (start + row).to(tl.int64) * stride + column
    return tl.load(at, mask=(start + row < stop) & (column < width), other=other)


@triton.jit
def store_rows(x, start, stop, offset, width, stride, tile, L: tl.constexpr, BW: tl.constexpr):
    """Write the same places in the dtype of x."""
    row, column = tl.arange(0, L)[:, None], offset + tl.arange(0, BW)[None, :]
    at = x + (start + row).to(tl.int64) * stride + column
    tl.store(at, tile.to(x.dtype.element_ty), mask=(start + row < stop) & (column < width))


@triton.jit
def load_features(x, start, stop, offset, width: tl.constexpr, stride, L: tl.constexpr, BW: tl.constexpr, PHI: tl.constexpr):
    """Load φ of the same places, float32; 0 in columns beyond the width, φ(0) in tokens beyond `stop`."""
    # another number than 0 costs a choice at each place
    beyond: tl.constexpr = float("-inf") if width % BW else 0.0
    return phi(load_rows(x, start, stop, offset, width, stride, L, BW, beyond).to(tl.float32), PHI)


@triton.jit
def load_numbers(x, start, stop, L: tl.constexpr, other: tl.constexpr):
    """Load one float32 for each of L tokens."""
    row = start + tl.arange(0, L)
    return tl.load(x + row, mask=row < stop, other=other)


@triton.jit
def state_places(states, at, row_offset, column_offset, D: tl.constexpr, M: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """Compute pointers [BR, BC] into one of `states` (M·D numbers and D of the normaliser each), and a mask."""
    row, column = row_offset + tl.arange(0, BR)[:, None], column_offset + tl.arange(0, BC)[None, :]
    return states + at.to(tl.int64) * (D * M + D) + row * D + column, (row < M) & (column < D)


@triton.jit
def normaliser_places(states, at, offset, D: tl.constexpr, M: tl.constexpr, BC: tl.constexpr):
    """Compute pointers [BC] into the normaliser beside that state, and a mask."""
    column = offset + tl.arange(0, BC)
    return states + at.to(tl.int64) * (D * M + D) + D * M + column, column < D


@triton.jit
def halves(x):
    """Split float32 into what bfloat16 holds of it and the rest, of which bfloat16 holds as much again."""
    high = x.to(tl.bfloat16).to(tl.float32)
    return high, x - high


@triton.jit
def with_normaliser(f, normaliser, KIND: tl.constexpr, OPERAND: tl.constexpr):
    """Multiply each row of f [L, BD], an operand, with the normaliser [BD]."""
    if KIND == "bf16":
        high, low = halves(normaliser[:, None])
        column = tl.arange(0, 16)[None, :]
        parts = tl.where(column == 0, high, tl.where(column == 1, low, 0.0))
        return tl.sum(tl.dot(f, operand(parts, KIND, OPERAND)), 1)
    else:
        return tl.sum(f * normaliser[None, :], 1)


@triton.jit
def less_outer(df, c, normaliser, KIND: tl.constexpr, OPERAND: tl.constexpr):
    """Subtract c_i times the normaliser [BO] from each row of df [L, BO]."""
    if KIND == "bf16":
        c_high, c_low = halves(c[:, None])
        high, low = halves(normaliser[None, :])
        column, row = tl.arange(0, 16)[None, :], tl.arange(0, 16)[:, None]
        left = tl.where(column < 2, -c_high, tl.where(column < 4, -c_low, 0.0))
        right = tl.where(row % 2 == 0, high, low)
        return tl.dot(operand(left, KIND, OPERAND), operand(right, KIND, OPERAND), acc=df)
    else:
        return df - c[:, None] * normaliser[None, :]


@triton.jit
def sums_kernel(
    x, y, denominators, coefficients, states,
    H, N, T, segments,
    x_b, x_h, x_n, y_b, y_h, y_n,
    D: tl.constexpr, M: tl.constexpr, L: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BO: tl.constexpr,
    PHI: tl.constexpr, KIND: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, REVERSE: tl.constexpr,
):  # fmt: skip
    """Sum what one segment adds to the state: Σ v f(k)ᵀ and Σ f(k); or, in reverse, Σ g f(q)ᵀ/d and Σ f(q)/d c.

    The last segment, in reverse the first, is not summed, because no other needs it. Place s of `states` is for the state
    between the segments s and s + 1.
    """
    splits: tl.constexpr = (M + BO - 1) // BO
    offset, at = tl.program_id(0) % splits * BO, tl.program_id(0) // splits
    head, place = at // (segments - 1), at % (segments - 1)
    first = (place + REVERSE) * T
    last = tl.minimum(first + T, N)
    x, y = of_head(x, head, H, x_b, x_h), of_head(y, head, H, y_b, y_h)
    denominators += head.to(tl.int64) * N
    coefficients += head.to(tl.int64) * N
    state = tl.zeros([BO, BD], dtype=tl.float32)
    normaliser = tl.zeros([BD], dtype=tl.float32)
    for i in range(tl.cdiv(last - first, L)):
        start = first + i * L
        f = load_features(x, start, last, 0, D, x_n, L, BD, PHI)
        if REVERSE:
            f *= (1 / load_numbers(denominators, start, last, L, 1.0))[:, None]
        w = load_rows(y, start, last, offset, M, y_n, L, BO, 0.0).to(OPERAND)
        state = tl.dot(tl.trans(w), operand(f, KIND, OPERAND), acc=state, input_precision=PRECISION)
        if REVERSE:
            f *= load_numbers(coefficients, start, last, L, 0.0)[:, None]
        normaliser += tl.sum(f, 0)
    places, inside = state_places(states, at, offset, 0, D, M, BO, BD)
    tl.store(places, state, mask=inside)
    if offset == 0:
        beside, within = normaliser_places(states, at, 0, D, M, BD)
        tl.store(beside, normaliser, mask=within)


@triton.jit
def scan_kernel(states, W, places, PLACES: tl.constexpr, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    """Sum over the places of each head, in reverse from the last one, in place: [heads, places, W]."""
    blocks = tl.cdiv(W, BLOCK)
    head, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    place, column = tl.arange(0, PLACES)[:, None], block * BLOCK + tl.arange(0, BLOCK)[None, :]
    at = states + head.to(tl.int64) * places * W + place * W + column
    inside = (place < places) & (column < W)
    tl.store(at, tl.cumsum(tl.load(at, mask=inside, other=0.0), 0, reverse=REVERSE), mask=inside)


@triton.jit
def attend_kernel(
    q, k, v, o, denominators, states,
    eps, H, N, T, segments,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, o_b, o_h, o_n,
    D: tl.constexpr, M: tl.constexpr, L: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BO: tl.constexpr,
    PHI: tl.constexpr, KIND: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute o_i = (Σ_{j≤i} (f_i·f_j) v_j) / d_i with d_i = Σ_{j≤i} f_i·f_j + eps, and d.

    Katharopoulos et al. 2020, eq. 9-12: terms with j in the same chunk by masked scores, all before by the state.
    """
    splits: tl.constexpr = (M + BO - 1) // BO
    offset, head, segment = whereabouts(splits, segments, BO)
    first = segment * T
    last = tl.minimum(first + T, N)
    q, k = of_head(q, head, H, q_b, q_h), of_head(k, head, H, k_b, k_h)
    v, o = of_head(v, head, H, v_b, v_h), of_head(o, head, H, o_b, o_h)
    denominators += head.to(tl.int64) * N
    state = tl.zeros([BO, BD], dtype=tl.float32)
    normaliser = tl.zeros([BD], dtype=tl.float32)
    if segment > 0:
        places, inside = state_places(states, head * (segments - 1) + segment - 1, offset, 0, D, M, BO, BD)
        state = tl.load(places, mask=inside, other=0.0)
        places, inside = normaliser_places(states, head * (segments - 1) + segment - 1, 0, D, M, BD)
        normaliser = tl.load(places, mask=inside, other=0.0)
    row = tl.arange(0, L)
    seen = row[:, None] >= row[None, :]
    for i in range(tl.cdiv(last - first, L)):
        start = first + i * L
        fq = operand(load_features(q, start, last, 0, D, q_n, L, BD, PHI), KIND, OPERAND)
        d = with_normaliser(fq, normaliser, KIND, OPERAND) + eps
        sums = tl.dot(fq, tl.trans(operand(state, KIND, OPERAND)), input_precision=PRECISION)
        f = load_features(k, start, last, 0, D, k_n, L, BD, PHI)
        normaliser += tl.sum(f, 0)
        fk = operand(f, KIND, OPERAND)
        scores = tl.where(seen, tl.dot(fq, tl.trans(fk), input_precision=PRECISION), 0.0)
        d += tl.sum(scores, 1)
        w = load_rows(v, start, last, offset, M, v_n, L, BO, 0.0).to(OPERAND)
        sums = tl.dot(operand(scores, KIND, OPERAND), w, acc=sums, input_precision=PRECISION)
        state = tl.dot(tl.trans(w), fk, acc=state, input_precision=PRECISION)
        store_rows(o, start, last, offset, M, o_n, sums * (1 / d)[:, None], L, BO)
        if offset == 0:
            tl.store(denominators + start + row, d, mask=start + row < last)


@triton.jit
def queries_kernel(
    q, k, v, o, g, denominators, coefficients, states, dq,
    H, N, T, segments,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, o_b, o_h, o_n, g_b, g_h, g_n, dq_b, dq_h, dq_n,
    D: tl.constexpr, M: tl.constexpr, L: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BO: tl.constexpr,
    PHI: tl.constexpr, KIND: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute dφ(q_i) = Σ_{j≤i} (g_i·v_j - c_i) f_j / d_i, times the slope; and c, once.

    Katharopoulos et al. 2020, eq. 13, with the quotient rule: dL/d(numerator) = g / d, dL/d(denominator) = -c / d.
    """
    splits: tl.constexpr = (D + BO - 1) // BO
    offset, head, segment = whereabouts(splits, segments, BO)
    first = segment * T
    last = tl.minimum(first + T, N)
    q, k, v = of_head(q, head, H, q_b, q_h), of_head(k, head, H, k_b, k_h), of_head(v, head, H, v_b, v_h)
    o, g, dq = of_head(o, head, H, o_b, o_h), of_head(g, head, H, g_b, g_h), of_head(dq, head, H, dq_b, dq_h)
    denominators += head.to(tl.int64) * N
    coefficients += head.to(tl.int64) * N
    state = tl.zeros([BM, BO], dtype=tl.float32)
    normaliser = tl.zeros([BO], dtype=tl.float32)
    if segment > 0:
        places, inside = state_places(states, head * (segments - 1) + segment - 1, 0, offset, D, M, BM, BO)
        state = tl.load(places, mask=inside, other=0.0)
        places, inside = normaliser_places(states, head * (segments - 1) + segment - 1, offset, D, M, BO)
        normaliser = tl.load(places, mask=inside, other=0.0)
    row = tl.arange(0, L)
    seen = row[:, None] >= row[None, :]
    for i in range(tl.cdiv(last - first, L)):
        start = first + i * L
        # nothing else would load these two ahead
        x = load_rows(q, start, last, offset, D, q_n, L, BO, 0.0)
        d = load_numbers(denominators, start, last, L, 1.0)
        u = load_rows(g, start, last, 0, M, g_n, L, BM, 0.0)
        c = tl.sum(u.to(tl.float32) * load_rows(o, start, last, 0, M, o_n, L, BM, 0.0).to(tl.float32), 1)
        if offset == 0:
            tl.store(coefficients + start + row, c, mask=start + row < last)
        u = u.to(OPERAND)
        df = tl.dot(u, operand(state, KIND, OPERAND), input_precision=PRECISION)
        df = less_outer(df, c, normaliser, KIND, OPERAND)
        w = load_rows(v, start, last, 0, M, v_n, L, BM, 0.0).to(OPERAND)
        pairs = tl.where(seen, tl.dot(u, tl.trans(w), input_precision=PRECISION) - c[:, None], 0.0)
        f = load_features(k, start, last, offset, D, k_n, L, BO, PHI)
        normaliser += tl.sum(f, 0)
        fk = operand(f, KIND, OPERAND)
        df = tl.dot(operand(pairs, KIND, OPERAND), fk, acc=df, input_precision=PRECISION)
        state = tl.dot(tl.trans(w), fk, acc=state, input_precision=PRECISION)
        df *= slope(x.to(tl.float32), PHI) * (1 / d)[:, None]
        store_rows(dq, start, last, offset, D, dq_n, df, L, BO)


@triton.jit
def keys_kernel(
    q, k, v, g, denominators, coefficients, states, dk,
    H, N, T, segments,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, g_b, g_h, g_n, dk_b, dk_h, dk_n,
    D: tl.constexpr, M: tl.constexpr, L: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BO: tl.constexpr,
    PHI: tl.constexpr, KIND: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute dφ(k_j) = Σ_{i≥j} (g_i·v_j - c_i) f_i / d_i, times the slope, from the last chunk to the first.

    Katharopoulos et al. 2020, eq. 14; the state is Σ g_i f_iᵀ / d_i over the later chunks, its normaliser Σ c_i f_i / d_i.
    """
    splits: tl.constexpr = (D + BO - 1) // BO
    offset, head, segment = whereabouts(splits, segments, BO)
    first = segment * T
    last = tl.minimum(first + T, N)
    q, k, v = of_head(q, head, H, q_b, q_h), of_head(k, head, H, k_b, k_h), of_head(v, head, H, v_b, v_h)
    g, dk = of_head(g, head, H, g_b, g_h), of_head(dk, head, H, dk_b, dk_h)
    denominators += head.to(tl.int64) * N
    coefficients += head.to(tl.int64) * N
    state = tl.zeros([BM, BO], dtype=tl.float32)
    normaliser = tl.zeros([BO], dtype=tl.float32)
    if segment < segments - 1:
        places, inside = state_places(states, head * (segments - 1) + segment, 0, offset, D, M, BM, BO)
        state = tl.load(places, mask=inside, other=0.0)
        places, inside = normaliser_places(states, head * (segments - 1) + segment, offset, D, M, BO)
        normaliser = tl.load(places, mask=inside, other=0.0)
    row = tl.arange(0, L)
    # a row for each key, a column for each query
    seen = row[:, None] <= row[None, :]
    chunks = tl.cdiv(last - first, L)
    for i in range(chunks):
        start = first + (chunks - 1 - i) * L
        w = load_rows(v, start, last, 0, M, v_n, L, BM, 0.0).to(OPERAND)
        df = tl.dot(w, operand(state, KIND, OPERAND), input_precision=PRECISION) - normaliser[None, :]
        c = load_numbers(coefficients, start, last, L, 0.0)
        u = load_rows(g, start, last, 0, M, g_n, L, BM, 0.0).to(OPERAND)
        pairs = tl.where(seen, tl.dot(w, tl.trans(u), input_precision=PRECISION) - c[None, :], 0.0)
        f = load_features(q, start, last, offset, D, q_n, L, BO, PHI)
        f *= (1 / load_numbers(denominators, start, last, L, 1.0))[:, None]
        fq = operand(f, KIND, OPERAND)
        df = tl.dot(operand(pairs, KIND, OPERAND), fq, acc=df, input_precision=PRECISION)
        state = tl.dot(tl.trans(u), fq, acc=state, input_precision=PRECISION)
        normaliser += tl.sum(f * c[:, None], 0)
        x = load_rows(k, start, last, offset, D, k_n, L, BO, 0.0).to(tl.float32)
        store_rows(dk, start, last, offset, D, dk_n, df * slope(x, PHI), L, BO)


@triton.jit
def values_kernel(
    q, k, g, denominators, states, dv,
    H, N, T, segments,
    q_b, q_h, q_n, k_b, k_h, k_n, g_b, g_h, g_n, dv_b, dv_h, dv_n,
    D: tl.constexpr, M: tl.constexpr, L: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BO: tl.constexpr,
    PHI: tl.constexpr, KIND: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute dv_j = Σ_{i≥j} (f_i·f_j) / d_i g_i, from the last chunk to the first (Katharopoulos et al. 2020, eq. 15)."""
    splits: tl.constexpr = (M + BO - 1) // BO
    offset, head, segment = whereabouts(splits, segments, BO)
    first = segment * T
    last = tl.minimum(first + T, N)
    q, k = of_head(q, head, H, q_b, q_h), of_head(k, head, H, k_b, k_h)
    g, dv = of_head(g, head, H, g_b, g_h), of_head(dv, head, H, dv_b, dv_h)
    denominators += head.to(tl.int64) * N
    state = tl.zeros([BO, BD], dtype=tl.float32)
    if segment < segments - 1:
        places, inside = state_places(states, head * (segments - 1) + segment, offset, 0, D, M, BO, BD)
        state = tl.load(places, mask=inside, other=0.0)
    row = tl.arange(0, L)
    # a row for each key, a column for each query
    seen = row[:, None] <= row[None, :]
    chunks = tl.cdiv(last - first, L)
    for i in range(chunks):
        start = first + (chunks - 1 - i) * L
        fk = operand(load_features(k, start, last, 0, D, k_n, L, BD, PHI), KIND, OPERAND)
        dw = tl.dot(fk, tl.trans(operand(state, KIND, OPERAND)), input_precision=PRECISION)
        f = load_features(q, start, last, 0, D, q_n, L, BD, PHI)
        f = operand(f * (1 / load_numbers(denominators, start, last, L, 1.0))[:, None], KIND, OPERAND)
        scores = tl.where(seen, tl.dot(fk, tl.trans(f), input_precision=PRECISION), 0.0)
        u = load_rows(g, start, last, offset, M, g_n, L, BO, 0.0).to(OPERAND)
        dw = tl.dot(operand(scores, KIND, OPERAND), u, acc=dw, input_precision=PRECISION)
        state = tl.dot(tl.trans(u), f, acc=state, input_precision=PRECISION)
        store_rows(dv, start, last, offset, M, dv_n, dw, L, BO)


@triton.jit
def step_kernel(
    q, k, v, o, sums,
    eps, K, q_b, q_h, k_b, k_h, v_b, v_h,
    R: tl.constexpr, D: tl.constexpr, M: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, PHI: tl.constexpr,
):  # fmt: skip
    """Add a token to the sums of one of K heads of keys, and read them with its R queries: each number is moved once.

    `sums` are Σ f(k) [v | 1]ᵀ of each head, float32 [D, M + 1]; o is dense.
    """
    head = tl.program_id(0)
    row, column = tl.arange(0, BD), tl.arange(0, BM)
    f = phi(tl.load(of_head(k, head, K, k_b, k_h) + row, mask=row < D, other=float("-inf")).to(tl.float32), PHI)
    value = tl.load(of_head(v, head, K, v_b, v_h) + column, mask=column < M, other=0.0).to(tl.float32)
    places = sums + head.to(tl.int64) * (D * (M + 1)) + row * (M + 1)
    inside = (row < D)[:, None] & (column < M)[None, :]
    state = tl.load(places[:, None] + column[None, :], mask=inside, other=0.0) + f[:, None] * value[None, :]
    normaliser = tl.load(places + M, mask=row < D, other=0.0) + f
    # where there are more threads than numbers, several hold the same one, and each has to have read it before one writes
    tl.debug_barrier()
    tl.store(places[:, None] + column[None, :], state, mask=inside)
    tl.store(places + M, normaliser, mask=row < D)
    for r in range(R):
        query = of_head(q, head, K, q_b, R * q_h) + r * q_h
        g = phi(tl.load(query + row, mask=row < D, other=float("-inf")).to(tl.float32), PHI)
        read = tl.sum(g[:, None] * state, 0) / (tl.sum(g * normaliser, 0) + eps)
        tl.store(o + (head.to(tl.int64) * R + r) * M + column, read.to(o.dtype.element_ty), mask=column < M)
