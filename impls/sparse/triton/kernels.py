"""The kernels of softmax over bands of keys, on tensor cores.

B batch, H heads of q, GROUP of them for each head of k and v, N tokens, D query/key width, M value width, BD and BM the powers
of two above them, BQ and BK queries and keys of a tile. A tensor is given by its pointer and its strides over batch, heads and
tokens; its last dimension is dense.

A walk (triton/walks.py) is a set of places: position a of group g is token g * apart + a * stride, a from `first` to before
`length`. A program has one block of places of one head; `rows` says which bands the head has and `bands` what these are. From
that follows the range of positions on the other side, through which the program goes tile by tile. A position of a summary is
token (b // cell) * step + b % cell + the head's start. Work on one block may be split among programs.

Products take OPERAND (bfloat16, float16, or float32 by PRECISION), all else is float32. Scores and their logsumexp are to the
base 2.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, untyped-decorator, import-untyped, import-not-found"
# ruff: noqa: ANN001, ANN201, ARG001, N803, PLR0913, PLR0915, PLR0917 - kernels take flat arguments, all alike, in one body

import triton
import triton.language as tl

FIELDS = tl.constexpr(16)  # words of a band
GROUPED = tl.constexpr(0)  # kinds of bands: positions count within groups
SUMMARY = tl.constexpr(2)  # or, of the keys, within a summary; else they are tokens
FAR = tl.constexpr(1 << 30)  # a row or column that is in no band
LOG2_E = tl.constexpr(1.4426950408889634)
# whole numbers of the launch that change with the pattern alone: one compilation does for all of their values
LAUNCHED = ["count", "tiles", "blocks", "first", "length", "apart", "cell", "step", "splits", "N"]


@triton.jit
def operand(x, ROUNDED: tl.constexpr, OPERAND: tl.constexpr):
    """Round x to one dtype for a product and keep it in another; on a GPU the two are the same."""
    return x.to(ROUNDED).to(OPERAND)


@triton.jit
def whereabouts(tiles, blocks, count, B, LAST_FIRST: tl.constexpr):
    """Find this program's group and block, its row of the table, its share of the split work, and its batch.

    Long blocks go first, so that short ones fill the end: the last queries often see most, and the first keys are seen most.
    """
    at, rest = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    block = at % blocks
    if LAST_FIRST:
        block = blocks - 1 - block
    return at // blocks, block, rest % count, rest // count // B, rest // count % B


@triton.jit
def of_head(x, batch, head, stride_b, stride_h):
    """Find where the tokens of one head begin, also beyond 2³¹ elements."""
    return x + batch.to(tl.int64) * stride_b + head.to(tl.int64) * stride_h


@triton.jit
def load_tokens(x, token, inside, width, stride, BW: tl.constexpr):
    """Load these tokens of one head: [tokens, BW], 0 outside."""
    column = tl.arange(0, BW)
    at = x + token.to(tl.int64)[:, None] * stride + column[None, :]
    return tl.load(at, mask=inside[:, None] & (column < width)[None, :], other=0.0)


@triton.jit
def store_tokens(x, token, inside, width, stride, tile, BW: tl.constexpr):
    """Write the same places in the dtype of x."""
    column = tl.arange(0, BW)
    at = x + token.to(tl.int64)[:, None] * stride + column[None, :]
    tl.store(at, tile.to(x.dtype.element_ty), mask=inside[:, None] & (column < width)[None, :])


@triton.jit
def positions(start, stride, length, low, high):
    """Compute the range of positions of a group whose tokens are from `low` to before `high`."""
    first = tl.cdiv(tl.maximum(low - start, 0), stride)
    stop = tl.cdiv(tl.maximum(high - start, 0), stride)
    return tl.minimum(first, length), tl.minimum(stop, length)


@triton.jit
def share(first, stop, split, splits, BLOCK: tl.constexpr):
    """Compute this program's part of a range, in whole blocks."""
    each = tl.cdiv(tl.cdiv(tl.maximum(stop - first, 0), BLOCK), splits) * BLOCK
    first += split * each
    return first, tl.minimum(stop, first + each)


@triton.jit
def unit_of(position, unit, UNITS: tl.constexpr):
    """Compute which unit a position is in; without UNITS all units are 1."""
    return position // unit if UNITS else position


@triton.jit
def seen(row, column, span):
    """Say whether 0 <= row - column <= span, for rows from which `low` was subtracted."""
    # as unsigned numbers, negative differences are large, so one comparison suffices
    return (row - column).to(tl.uint32, bitcast=True) <= span.to(tl.uint32, bitcast=True)


@triton.jit
def keys_of_block(band, group, begin, stride, length, start, BQ: tl.constexpr, UNITS: tl.constexpr):
    """Find the keys of a band that BQ queries from position `start` on see, a range, and the row of each query.

    Queries outside of the band get a row that sees nothing.
    """
    apart, own_stride, own_length = tl.load(band), tl.load(band + 1), tl.load(band + 2)
    low, high, query_unit, key_unit = tl.load(band + 9), tl.load(band + 10), tl.load(band + 11), tl.load(band + 12)
    grouped = tl.load(band + 15) == GROUPED
    first, stop = positions(begin, stride, length, tl.load(band + 3), tl.load(band + 4))
    first, stop = tl.maximum(first, start), tl.minimum(stop, start + BQ)
    least = unit_of(tl.where(grouped, first, begin + first * stride), query_unit, UNITS)
    most = unit_of(tl.where(grouped, stop - 1, begin + (stop - 1) * stride), query_unit, UNITS)
    left, right = positions(group * apart, own_stride, own_length, tl.load(band + 5), tl.load(band + 6))
    left = tl.maximum(tl.maximum(left, tl.load(band + 7)), (least - high) * key_unit)
    right = tl.minimum(tl.minimum(right, tl.load(band + 8)), (most - low + 1) * key_unit)
    a = start + tl.arange(0, BQ)
    row = unit_of(tl.where(grouped, a, begin + a * stride), query_unit, UNITS) - low
    row = tl.where((a >= first) & (a < stop), row, -FAR)
    return left, tl.where(first < stop, right, left), row, high - low


@triton.jit
def queries_of_block(band, group, begin, stride, length, start, BK: tl.constexpr, UNITS: tl.constexpr):
    """Find the queries that see BK keys from position `start` on by a band, a range, and the column of each key."""
    apart, own_stride, own_length = tl.load(band), tl.load(band + 1), tl.load(band + 2)
    low, high, query_unit, key_unit = tl.load(band + 9), tl.load(band + 10), tl.load(band + 11), tl.load(band + 12)
    kind = tl.load(band + 15)
    # for a summary, position and token are the same here
    within = (kind == GROUPED) | (kind == SUMMARY)
    first, stop = positions(begin, stride, length, tl.load(band + 5), tl.load(band + 6))
    first = tl.maximum(tl.maximum(first, tl.load(band + 7)), start)
    stop = tl.minimum(tl.minimum(stop, tl.load(band + 8)), start + BK)
    least = unit_of(tl.where(within, first, begin + first * stride), key_unit, UNITS)
    most = unit_of(tl.where(within, stop - 1, begin + (stop - 1) * stride), key_unit, UNITS)
    left, right = positions(group * apart, own_stride, own_length, tl.load(band + 3), tl.load(band + 4))
    left = tl.maximum(left, (least + low) * query_unit)
    right = tl.minimum(right, (most + high + 1) * query_unit)
    b = start + tl.arange(0, BK)
    column = unit_of(tl.where(within, b, begin + b * stride), key_unit, UNITS)
    column = tl.where((b >= first) & (b < stop), column, FAR)
    return left, tl.where(first < stop, right, left), column, high - low


@triton.jit
def keys_of_band(band, group, start):
    """Describe a band's keys: the token from which positions count, cell and step, and the unit of a column.

    `start` is where the head's cells begin in a summary.
    """
    origin = group * tl.load(band) + tl.where(tl.load(band + 15) == SUMMARY, start, 0)
    return origin, tl.load(band + 13), tl.load(band + 14), tl.load(band + 12)


@triton.jit
def tokens(origin, position, cell, step, UNITS: tl.constexpr):
    """Compute the tokens of positions; without UNITS all cells are 1."""
    return origin + (position // cell * step + position % cell if UNITS else position * step)


@triton.jit(do_not_specialize=LAUNCHED)
def attend_kernel(
    q, k, v, o, logsumexp, sharing, rows, bands,
    scale, B, H, GROUP, N, count, tiles, blocks, first, length, apart, stride, cell, step, splits,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, o_s, o_b, o_h, o_n,
    D: tl.constexpr, M: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
    ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
    UNITS: tl.constexpr, MORE: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute o_i = Σ_j exp(s_ij) v_j / Σ_j exp(s_ij), s = q kᵀ scale, over the keys of this walk, and log₂ of the sum.

    Without keys they are 0 and -∞. Dao et al. 2022, algorithm 1. MORE: merged with what o and logsumexp held before.
    """
    group, block, place, split, batch = whereabouts(tiles, blocks, count, B, True)
    head, cells_start = tl.load(rows + place * 4), tl.load(rows + place * 4 + 1)
    q, k = of_head(q, batch, head, q_b, q_h), of_head(k, batch, head // GROUP, k_b, k_h)
    v = of_head(v, batch, head // GROUP, v_b, v_h)
    begin, start = group * apart, first + block * BQ
    a = start + tl.arange(0, BQ)
    token = begin + a * stride
    inside = (a < length) & (token < N)
    x = operand(load_tokens(q, token, inside, D, q_n, BD), ROUNDED, OPERAND)
    top = tl.full([BQ], float("-inf"), tl.float32)
    total = tl.zeros([BQ], tl.float32)
    sums = tl.zeros([BQ, BM], tl.float32)
    for n in range(tl.load(rows + place * 4 + 2), tl.load(rows + place * 4 + 3)):
        band = bands + n * FIELDS
        left, right, row, span = keys_of_block(band, group, begin, stride, length, start, BQ, UNITS)
        origin, cell_k, step_k, key_unit = keys_of_band(band, group, cells_start)
        left, right = share(left, right, split, splits, BK)
        for at in range(left, right, BK):
            b = at + tl.arange(0, BK)
            others = tokens(origin, b, cell_k, step_k, UNITS)
            y = operand(load_tokens(k, others, b < right, D, k_n, BD), ROUNDED, OPERAND)
            column = tl.where(b < right, unit_of(b, key_unit, UNITS), FAR)
            scores = tl.dot(x, tl.trans(y), input_precision=PRECISION) * (scale * LOG2_E)
            scores = tl.where(seen(row[:, None], column[None, :], span), scores, float("-inf"))
            higher = tl.maximum(top, tl.max(scores, 1))
            # rows that have seen nothing yet: -inf - -inf is NaN
            finite = tl.where(higher == float("-inf"), 0.0, higher)
            weights = tl.exp2(scores - finite[:, None])
            shrunk = tl.exp2(top - finite)
            total = total * shrunk + tl.sum(weights, 1)
            w = operand(load_tokens(v, others, b < right, M, v_n, BM), ROUNDED, OPERAND)
            sums = tl.dot(operand(weights, ROUNDED, OPERAND), w, acc=sums * shrunk[:, None], input_precision=PRECISION)
            top = higher
    some = total > 0
    value = sums * (1 / tl.where(some, total, 1.0))[:, None]
    number = tl.where(some, top + tl.log2(tl.where(some, total, 1.0)), float("-inf"))
    of = place if SPLIT else head
    o = of_head(o, batch, of, o_b, o_h) + split.to(tl.int64) * o_s
    # scratch is as long as the walk
    logsumexp += ((split * B + batch) * (count if SPLIT else H) + of).to(tl.int64) * (length if SPLIT else N)
    if MORE:
        before = tl.load(logsumexp + token, mask=inside, other=float("-inf"))
        higher = tl.maximum(before, number)
        finite = tl.where(higher == float("-inf"), 0.0, higher)
        old, new = tl.exp2(before - finite), tl.exp2(number - finite)
        total = tl.where(old + new > 0, old + new, 1.0)
        value = value * (new / total)[:, None]
        value += load_tokens(o, token, inside, M, o_n, BM).to(tl.float32) * (old / total)[:, None]
        number = higher + tl.log2(total)
        # several warps read the same number: none is overwritten before all have it
        tl.debug_barrier()
    store_tokens(o, token, inside, M, o_n, value, BM)
    tl.store(logsumexp + token, number, mask=inside)


@triton.jit(do_not_specialize=LAUNCHED)
def queries_kernel(
    q, k, v, o, g, logsumexp, deltas, dq, sharing, rows, bands,
    scale, B, H, GROUP, N, count, tiles, blocks, first, length, apart, stride, cell, step, splits,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, o_b, o_h, o_n, g_b, g_h, g_n, dq_s, dq_b, dq_h, dq_n,
    D: tl.constexpr, M: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
    ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
    UNITS: tl.constexpr, MORE: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute dq_i = scale Σ_j P_ij (g_i·v_j - Δ_i) k_j over the keys of this walk, Δ_i = g_i·o_i, P by the final logsumexp.

    Dao et al. 2022, algorithm 4. The first walk also writes Δ. MORE: added to what dq held before.
    """
    group, block, place, split, batch = whereabouts(tiles, blocks, count, B, True)
    head, cells_start = tl.load(rows + place * 4), tl.load(rows + place * 4 + 1)
    q, k = of_head(q, batch, head, q_b, q_h), of_head(k, batch, head // GROUP, k_b, k_h)
    v, g = of_head(v, batch, head // GROUP, v_b, v_h), of_head(g, batch, head, g_b, g_h)
    begin, start = group * apart, first + block * BQ
    a = start + tl.arange(0, BQ)
    token = begin + a * stride
    inside = (a < length) & (token < N)
    numbers = (batch * H + head).to(tl.int64) * N + token
    u = load_tokens(g, token, inside, M, g_n, BM)
    if MORE or SPLIT:
        delta = tl.load(deltas + numbers, mask=inside, other=0.0)
    else:
        result = load_tokens(of_head(o, batch, head, o_b, o_h), token, inside, M, o_n, BM)
        delta = tl.sum(u.to(tl.float32) * result.to(tl.float32), 1)
        tl.store(deltas + numbers, delta, mask=inside)
    final = tl.load(logsumexp + numbers, mask=inside, other=0.0)
    # a row that sees nothing is hidden entirely anyway
    final = tl.where(final == float("-inf"), 0.0, final)
    u = operand(u, ROUNDED, OPERAND)
    x = operand(load_tokens(q, token, inside, D, q_n, BD), ROUNDED, OPERAND)
    dx = tl.zeros([BQ, BD], tl.float32)
    for n in range(tl.load(rows + place * 4 + 2), tl.load(rows + place * 4 + 3)):
        band = bands + n * FIELDS
        left, right, row, span = keys_of_block(band, group, begin, stride, length, start, BQ, UNITS)
        origin, cell_k, step_k, key_unit = keys_of_band(band, group, cells_start)
        left, right = share(left, right, split, splits, BK)
        for at in range(left, right, BK):
            b = at + tl.arange(0, BK)
            others = tokens(origin, b, cell_k, step_k, UNITS)
            y = operand(load_tokens(k, others, b < right, D, k_n, BD), ROUNDED, OPERAND)
            w = operand(load_tokens(v, others, b < right, M, v_n, BM), ROUNDED, OPERAND)
            column = tl.where(b < right, unit_of(b, key_unit, UNITS), FAR)
            scores = tl.dot(x, tl.trans(y), input_precision=PRECISION) * (scale * LOG2_E) - final[:, None]
            weights = tl.exp2(tl.where(seen(row[:, None], column[None, :], span), scores, float("-inf")))
            slopes = weights * (tl.dot(u, tl.trans(w), input_precision=PRECISION) - delta[:, None])
            dx = tl.dot(operand(slopes, ROUNDED, OPERAND), y, acc=dx, input_precision=PRECISION)
    dx *= scale
    dq = of_head(dq, batch, place if SPLIT else head, dq_b, dq_h) + split.to(tl.int64) * dq_s
    if MORE:
        dx += load_tokens(dq, token, inside, D, dq_n, BD).to(tl.float32)
    store_tokens(dq, token, inside, D, dq_n, dx, BD)


@triton.jit(do_not_specialize=LAUNCHED)
def keys_kernel(
    q, k, v, g, logsumexp, deltas, dk, dv, sharing, rows, bands,
    scale, B, H, GROUP, N, count, tiles, blocks, first, length, apart, stride, cell, step, splits,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, g_b, g_h, g_n, dk_s, dk_b, dk_h, dk_n, dv_s, dv_b, dv_h, dv_n,
    D: tl.constexpr, M: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
    ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
    UNITS: tl.constexpr, MORE: tl.constexpr, SPLIT: tl.constexpr, CELLS: tl.constexpr,
):  # fmt: skip
    """Compute dv_j = Σ_i P_ij g_i and dk_j = scale Σ_i P_ij (g_i·v_j - Δ_i) q_i over the queries that see keys of this walk.

    Dao et al. 2022, algorithm 4. Heads of q that share a head of k and v are taken one after the other. CELLS: the places are
    those of a summary, different for each head of q. MORE: added to what dk and dv held before.
    """
    group, block, place, split, batch = whereabouts(tiles, blocks, count, B, False)
    kv_head = tl.load(sharing + place * 4)
    k, v = of_head(k, batch, kv_head, k_b, k_h), of_head(v, batch, kv_head, v_b, v_h)
    of = place if SPLIT else kv_head
    dk = of_head(dk, batch, of, dk_b, dk_h) + split.to(tl.int64) * dk_s
    dv = of_head(dv, batch, of, dv_b, dv_h) + split.to(tl.int64) * dv_s
    begin, start = group * apart, first + block * BK
    b = start + tl.arange(0, BK)
    token = begin + b * stride
    inside = (b < length) & (token < N)
    dy = tl.zeros([BK, BD], tl.float32)
    dw = tl.zeros([BK, BM], tl.float32)
    for i in range(tl.load(sharing + place * 4 + 1), tl.load(sharing + place * 4 + 2)):
        head = tl.load(rows + i * 4)
        if CELLS:
            token = tokens(tl.load(rows + i * 4 + 1), b, cell, step, UNITS)
        y = operand(load_tokens(k, token, inside, D, k_n, BD), ROUNDED, OPERAND)
        w = operand(load_tokens(v, token, inside, M, v_n, BM), ROUNDED, OPERAND)
        x_rows, u_rows = of_head(q, batch, head, q_b, q_h), of_head(g, batch, head, g_b, g_h)
        numbers = (batch * H + head).to(tl.int64) * N
        for n in range(tl.load(rows + i * 4 + 2), tl.load(rows + i * 4 + 3)):
            band = bands + n * FIELDS
            left, right, column, span = queries_of_block(band, group, begin, stride, length, start, BK, UNITS)
            origin, own_stride, low = group * tl.load(band), tl.load(band + 1), tl.load(band + 9)
            query_unit = tl.load(band + 11)
            left, right = share(left, right, split, splits, BQ)
            for at in range(left, right, BQ):
                a = at + tl.arange(0, BQ)
                others = origin + a * own_stride
                x = operand(load_tokens(x_rows, others, a < right, D, q_n, BD), ROUNDED, OPERAND)
                u = operand(load_tokens(u_rows, others, a < right, M, g_n, BM), ROUNDED, OPERAND)
                final = tl.load(logsumexp + numbers + others, mask=a < right, other=0.0)
                # a row that sees nothing is hidden entirely anyway
                final = tl.where(final == float("-inf"), 0.0, final)
                delta = tl.load(deltas + numbers + others, mask=a < right, other=0.0)
                row = tl.where(a < right, unit_of(a, query_unit, UNITS) - low, -FAR)
                # a row for each key, a column for each query
                scores = tl.dot(y, tl.trans(x), input_precision=PRECISION) * (scale * LOG2_E) - final[None, :]
                weights = tl.exp2(tl.where(seen(row[None, :], column[:, None], span), scores, float("-inf")))
                dw = tl.dot(operand(weights, ROUNDED, OPERAND), u, acc=dw, input_precision=PRECISION)
                slopes = weights * (tl.dot(w, tl.trans(u), input_precision=PRECISION) - delta[None, :])
                dy = tl.dot(operand(slopes, ROUNDED, OPERAND), x, acc=dy, input_precision=PRECISION)
        if CELLS:
            dy = dy * scale + load_tokens(dk, token, inside, D, dk_n, BD).to(tl.float32)
            dw += load_tokens(dv, token, inside, M, dv_n, BM).to(tl.float32)
            store_tokens(dk, token, inside, D, dk_n, dy, BD)
            store_tokens(dv, token, inside, M, dv_n, dw, BM)
            # the next head of q may have the same cells
            tl.debug_barrier()
            dy = tl.zeros([BK, BD], tl.float32)
            dw = tl.zeros([BK, BM], tl.float32)
    if not CELLS:
        dy *= scale
        if MORE:
            dy += load_tokens(dk, token, inside, D, dk_n, BD).to(tl.float32)
            dw += load_tokens(dv, token, inside, M, dv_n, BM).to(tl.float32)
        store_tokens(dk, token, inside, D, dk_n, dy, BD)
        store_tokens(dv, token, inside, M, dv_n, dw, BM)
