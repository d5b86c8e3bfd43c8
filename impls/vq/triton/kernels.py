"""The kernels of softmax over a table of codes and a window of keys, on tensor cores.

B batch, K heads of k and v, each shared by R heads of q, N tokens, S codes, D query/key width, M value width, BD and BM the
powers of two above them, BQ, BK and BS queries, keys and codes of a tile. A tensor is given by its pointer and its strides
over batch, heads and tokens (a codebook: heads and codes); its last dimension is dense.

The sequence is cut into segments of W tokens. Table t [S, M] has the mean value and the count of the tokens of each code in the
segments 0 … t; there are T of them, dense, float32: means [BK, T, S, M], counts [BK, T, S]. CAUSAL: segment n sees table n - 2,
and the keys of the segments n - 1 and n up to its own. Otherwise every query sees the last table, and no key.

Products take OPERAND (bfloat16, float16, or float32 by PRECISION), all else is float32. Scores and their logsumexp are to the
base 2.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, untyped-decorator, import-untyped, import-not-found"
# ruff: noqa: ANN001, ANN201, N803, PLR0913, PLR0917 - kernels take flat arguments, all alike, in one body

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
# whole numbers that change with the shape alone: one compilation does for all of their values
SHAPE = ["K", "N", "S", "W", "T"]


@triton.jit
def operand(x, ROUNDED: tl.constexpr, OPERAND: tl.constexpr):
    """Round x to one dtype for a product and keep it in another; on a GPU the two are the same."""
    return x.to(ROUNDED).to(OPERAND)


@triton.jit
def of_head(x, head, H, stride_b, stride_h):
    """Find where the tokens of one head begin, also beyond 2³¹ elements."""
    return x + (head // H).to(tl.int64) * stride_b + (head % H).to(tl.int64) * stride_h


@triton.jit
def load_rows(x, row, inside, width, stride, BW: tl.constexpr):
    """Load these rows: [rows, BW], 0 outside."""
    column = tl.arange(0, BW)
    at = x + row.to(tl.int64)[:, None] * stride + column[None, :]
    return tl.load(at, mask=inside[:, None] & (column < width)[None, :], other=0.0)


@triton.jit
def store_rows(x, row, inside, width, stride, tile, BW: tl.constexpr):
    """Write the same places in the dtype of x."""
    column = tl.arange(0, BW)
    at = x + row.to(tl.int64)[:, None] * stride + column[None, :]
    tl.store(at, tile.to(x.dtype.element_ty), mask=inside[:, None] & (column < width)[None, :])


@triton.jit
def whereabouts_of_tokens(N, W, BLOCK: tl.constexpr):
    """Find this program's head and segment, the token at which its tile starts, and the one at which the segment ends."""
    tiles = tl.cdiv(W, BLOCK)
    at, head = tl.program_id(0) % (tiles * tl.cdiv(N, W)), tl.program_id(0) // (tiles * tl.cdiv(N, W))
    segment = at // tiles
    return head, segment, segment * W + at % tiles * BLOCK, tl.minimum(segment * W + W, N)


@triton.jit
def whereabouts_of_codes(S, T, BLOCK: tl.constexpr):
    """Find this program's head and table, and the codes of its tile."""
    tiles = tl.cdiv(S, BLOCK)
    at, rest = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    return rest // T, rest % T, at * BLOCK + tl.arange(0, BLOCK)


@triton.jit
def of_table(head, table, S, T):
    """Find the row of `means`, and the place in `counts`, of a table's code 0."""
    return (head.to(tl.int64) * T + table) * S


@triton.jit
def log2_of(count):
    """Compute what a count adds to a score; -∞ for a code without tokens."""
    return tl.where(count > 0, tl.log2(tl.maximum(count, 1.0)), float("-inf"))


@triton.jit(do_not_specialize=SHAPE)
def sums_kernel(
    codes, v, means, counts,
    K, N, S, W, T,
    c_b, c_h, c_n, v_b, v_h, v_n,
    M: tl.constexpr, BM: tl.constexpr, BS: tl.constexpr, BK: tl.constexpr,
    ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the mean value and the count of each code in one segment, by a product with the codes as ones and zeros."""
    head, table, s = whereabouts_of_codes(S, T, BS)
    codes, v = of_head(codes, head, K, c_b, c_h), of_head(v, head, K, v_b, v_h)
    stop = tl.minimum(table * W + W, N)
    sums = tl.zeros([BS, BM], tl.float32)
    count = tl.zeros([BS], tl.float32)
    for at in range(table * W, stop, BK):
        token = at + tl.arange(0, BK)
        code = tl.load(codes + token.to(tl.int64) * c_n, mask=token < stop, other=-1)
        hits = (s[:, None] == code[None, :]).to(tl.float32)
        w = operand(load_rows(v, token, token < stop, M, v_n, BM), ROUNDED, OPERAND)
        sums = tl.dot(operand(hits, ROUNDED, OPERAND), w, acc=sums, input_precision=PRECISION)
        count += tl.sum(hits, 1)
    row = of_table(head, table, S, T) + s
    store_rows(means, row, s < S, M, M, sums / tl.maximum(count, 1.0)[:, None], BM)
    tl.store(counts + row, count, mask=s < S)


@triton.jit(do_not_specialize=SHAPE)
def tables_kernel(means, counts, S, T, M: tl.constexpr, BM: tl.constexpr, BS: tl.constexpr):
    """Turn segments into tables, in place, merging means by their counts.

    This is the stable form of Lingle 2023, theorem 3.7: sums over a long sequence lose digits that means keep.
    """
    tiles = tl.cdiv(S, BS)
    head, s = tl.program_id(0) // tiles, tl.program_id(0) % tiles * BS + tl.arange(0, BS)
    mean = tl.zeros([BS, BM], tl.float32)
    count = tl.zeros([BS], tl.float32)
    for table in range(T):
        row = of_table(head, table, S, T) + s
        more = tl.load(counts + row, mask=s < S, other=0.0)
        count += more
        mean += (load_rows(means, row, s < S, M, M, BM) - mean) * (more / tl.maximum(count, 1.0))[:, None]
        # several warps read the same number: none is overwritten before all have it
        tl.debug_barrier()
        store_rows(means, row, s < S, M, M, mean, BM)
        tl.store(counts + row, count, mask=s < S)


@triton.jit
def take_in(scores, w, top, total, sums, ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr):
    """Merge these scores and their values into the softmax so far. Dao et al. 2022, algorithm 1."""
    higher = tl.maximum(top, tl.max(scores, 1))
    # rows that have seen nothing yet: -inf - -inf is NaN
    finite = tl.where(higher == float("-inf"), 0.0, higher)
    weights = tl.exp2(scores - finite[:, None])
    shrunk = tl.exp2(top - finite)
    sums = tl.dot(operand(weights, ROUNDED, OPERAND), w, acc=sums * shrunk[:, None], input_precision=PRECISION)
    return higher, total * shrunk + tl.sum(weights, 1), sums


@triton.jit(do_not_specialize=SHAPE)
def attend_kernel(
    q, k, v, o, logsumexp, codebook, means, counts,
    K, N, S, W, T,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, c_h, c_s, o_b, o_h, o_n,
    D: tl.constexpr, M: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
    ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, R: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Compute o_i = (Σ_s n_s exp(q_i·c_s) m_s + Σ_j exp(q_i·k_j) v_j) / (the same without m and v), and log₂ of the divisor.

    Lingle 2023, theorem 3.7, with one running maximum for the window and the table; without a mask theorem 3.4.
    """
    head, segment, start, stop = whereabouts_of_tokens(N, W, BQ)
    if start >= stop:
        return
    group = head // R
    k, v, codebook = of_head(k, group, K, k_b, k_h), of_head(v, group, K, v_b, v_h), of_head(codebook, group, K, 0, c_h)
    q, o = of_head(q, head, K * R, q_b, q_h), of_head(o, head, K * R, o_b, o_h)
    token = start + tl.arange(0, BQ)
    x = operand(load_rows(q, token, token < stop, D, q_n, BD), ROUNDED, OPERAND)
    top = tl.full([BQ], float("-inf"), tl.float32)
    total = tl.zeros([BQ], tl.float32)
    sums = tl.zeros([BQ, BM], tl.float32)
    table = T - 1
    if CAUSAL:
        table = segment - 2
        for at in range(tl.maximum(segment - 1, 0) * W, tl.minimum(start + BQ, stop), BK):
            key = at + tl.arange(0, BK)
            y = operand(load_rows(k, key, key < stop, D, k_n, BD), ROUNDED, OPERAND)
            scores = tl.dot(x, tl.trans(y), input_precision=PRECISION) * LOG2_E
            scores = tl.where(key[None, :] <= token[:, None], scores, float("-inf"))
            w = operand(load_rows(v, key, key < stop, M, v_n, BM), ROUNDED, OPERAND)
            top, total, sums = take_in(scores, w, top, total, sums, ROUNDED, OPERAND, PRECISION)
    first = of_table(group, table, S, T)
    for at in range(0, tl.where(table < 0, 0, S), BK):
        s = at + tl.arange(0, BK)
        y = operand(load_rows(codebook, s, s < S, D, c_s, BD), ROUNDED, OPERAND)
        more = log2_of(tl.load(counts + first + s, mask=s < S, other=0.0))
        scores = tl.dot(x, tl.trans(y), input_precision=PRECISION) * LOG2_E + more[None, :]
        w = operand(load_rows(means, first + s, s < S, M, M, BM), ROUNDED, OPERAND)
        top, total, sums = take_in(scores, w, top, total, sums, ROUNDED, OPERAND, PRECISION)
    store_rows(o, token, token < stop, M, o_n, sums * (1 / total)[:, None], BM)
    tl.store(logsumexp + head.to(tl.int64) * N + token, top + tl.log2(total), mask=token < stop)


@triton.jit
def descend(
    scores, final, delta, u, w, y, dx, ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    """Add what these keys or codes contribute to dq: Σ_j P_ij (g_i·v_j - Δ_i) k_j. Dao et al. 2022, algorithm 4."""
    weights = tl.exp2(scores - final[:, None])
    slopes = weights * (tl.dot(u, tl.trans(w), input_precision=PRECISION) - delta[:, None])
    return tl.dot(operand(slopes, ROUNDED, OPERAND), y, acc=dx, input_precision=PRECISION)


@triton.jit(do_not_specialize=SHAPE)
def queries_kernel(
    q, k, v, o, g, logsumexp, deltas, codebook, means, counts, dq,
    K, N, S, W, T,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, o_b, o_h, o_n, g_b, g_h, g_n, c_h, c_s, dq_b, dq_h, dq_n,
    D: tl.constexpr, M: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
    ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, R: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Compute dq_i over the window and the table, and Δ_i = g_i·o_i; P by the final logsumexp."""
    head, segment, start, stop = whereabouts_of_tokens(N, W, BQ)
    if start >= stop:
        return
    group, H = head // R, K * R
    k, v, codebook = of_head(k, group, K, k_b, k_h), of_head(v, group, K, v_b, v_h), of_head(codebook, group, K, 0, c_h)
    q, dq = of_head(q, head, H, q_b, q_h), of_head(dq, head, H, dq_b, dq_h)
    o, g = of_head(o, head, H, o_b, o_h), of_head(g, head, H, g_b, g_h)
    token = start + tl.arange(0, BQ)
    number = head.to(tl.int64) * N + token
    u = load_rows(g, token, token < stop, M, g_n, BM)
    delta = tl.sum(u.to(tl.float32) * load_rows(o, token, token < stop, M, o_n, BM).to(tl.float32), 1)
    tl.store(deltas + number, delta, mask=token < stop)
    final = tl.load(logsumexp + number, mask=token < stop, other=float("inf"))
    u = operand(u, ROUNDED, OPERAND)
    x = operand(load_rows(q, token, token < stop, D, q_n, BD), ROUNDED, OPERAND)
    dx = tl.zeros([BQ, BD], tl.float32)
    table = T - 1
    if CAUSAL:
        table = segment - 2
        for at in range(tl.maximum(segment - 1, 0) * W, tl.minimum(start + BQ, stop), BK):
            key = at + tl.arange(0, BK)
            y = operand(load_rows(k, key, key < stop, D, k_n, BD), ROUNDED, OPERAND)
            scores = tl.dot(x, tl.trans(y), input_precision=PRECISION) * LOG2_E
            scores = tl.where(key[None, :] <= token[:, None], scores, float("-inf"))
            w = operand(load_rows(v, key, key < stop, M, v_n, BM), ROUNDED, OPERAND)
            dx = descend(scores, final, delta, u, w, y, dx, ROUNDED, OPERAND, PRECISION)
    first = of_table(group, table, S, T)
    for at in range(0, tl.where(table < 0, 0, S), BK):
        s = at + tl.arange(0, BK)
        y = operand(load_rows(codebook, s, s < S, D, c_s, BD), ROUNDED, OPERAND)
        more = log2_of(tl.load(counts + first + s, mask=s < S, other=0.0))
        scores = tl.dot(x, tl.trans(y), input_precision=PRECISION) * LOG2_E + more[None, :]
        w = operand(load_rows(means, first + s, s < S, M, M, BM), ROUNDED, OPERAND)
        dx = descend(scores, final, delta, u, w, y, dx, ROUNDED, OPERAND, PRECISION)
    store_rows(dq, token, token < stop, D, dq_n, dx, BD)


@triton.jit(do_not_specialize=SHAPE)
def codes_kernel(
    q, g, logsumexp, codebook, counts, shares,
    K, N, S, W, T,
    q_b, q_h, q_n, g_b, g_h, g_n, c_h, c_s,
    D: tl.constexpr, M: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BS: tl.constexpr, BQ: tl.constexpr,
    ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, R: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Compute Σ_i P_is g_i / n_s over the queries i of one segment, which each token of a code receives through its table."""
    group, place, s = whereabouts_of_codes(S, T, BS)
    table, segment = T - 1, place
    if CAUSAL:
        table, segment = place, place + 2
    y = operand(load_rows(of_head(codebook, group, K, 0, c_h), s, s < S, D, c_s, BD), ROUNDED, OPERAND)
    count = tl.load(counts + of_table(group, table, S, T) + s, mask=s < S, other=0.0)
    more = log2_of(count)
    stop = tl.minimum(segment * W + W, N)
    dw = tl.zeros([BS, BM], tl.float32)
    for r in range(R):
        head = group * R + r
        q_r, g_r = of_head(q, head, K * R, q_b, q_h), of_head(g, head, K * R, g_b, g_h)
        finals = logsumexp + head.to(tl.int64) * N
        for at in range(segment * W, stop, BQ):
            token = at + tl.arange(0, BQ)
            x = operand(load_rows(q_r, token, token < stop, D, q_n, BD), ROUNDED, OPERAND)
            u = operand(load_rows(g_r, token, token < stop, M, g_n, BM), ROUNDED, OPERAND)
            final = tl.load(finals + token, mask=token < stop, other=float("inf"))
            # a row for each code, a column for each query
            scores = tl.dot(y, tl.trans(x), input_precision=PRECISION) * LOG2_E + more[:, None]
            weights = tl.exp2(scores - final[None, :])
            dw = tl.dot(operand(weights, ROUNDED, OPERAND), u, acc=dw, input_precision=PRECISION)
    row = of_table(group, place, S, T) + s
    store_rows(shares, row, s < S, M, M, dw / tl.maximum(count, 1.0)[:, None], BM)


@triton.jit(do_not_specialize=SHAPE)
def shares_kernel(shares, S, T, M: tl.constexpr, BM: tl.constexpr, BS: tl.constexpr):
    """Sum from the last place to each, in place: a token is in its own segment's table and in all later ones."""
    tiles = tl.cdiv(S, BS)
    head, s = tl.program_id(0) // tiles, tl.program_id(0) % tiles * BS + tl.arange(0, BS)
    sums = tl.zeros([BS, BM], tl.float32)
    for i in range(T):
        row = of_table(head, T - 1 - i, S, T) + s
        sums += load_rows(shares, row, s < S, M, M, BM)
        # as in tables_kernel
        tl.debug_barrier()
        store_rows(shares, row, s < S, M, M, sums, BM)


@triton.jit(do_not_specialize=SHAPE)
def keys_kernel(
    q, k, v, g, logsumexp, deltas, codes, shares, dk, dv,
    K, N, S, W, T,
    q_b, q_h, q_n, k_b, k_h, k_n, v_b, v_h, v_n, g_b, g_h, g_n, c_b, c_h, c_n, dk_b, dk_h, dk_n, dv_b, dv_h, dv_n,
    D: tl.constexpr, M: tl.constexpr, BD: tl.constexpr, BM: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr,
    ROUNDED: tl.constexpr, OPERAND: tl.constexpr, PRECISION: tl.constexpr, R: tl.constexpr, CAUSAL: tl.constexpr,
    TABLE: tl.constexpr,
):  # fmt: skip
    """Compute dk_j = Σ_i P_ij (g_i·v_j - Δ_i) q_i and dv_j = Σ_i P_ij g_i over the window.

    TABLE: dv_j also receives its code's share.
    """
    group, segment, start, stop = whereabouts_of_tokens(N, W, BK)
    if start >= stop:
        return
    key = start + tl.arange(0, BK)
    dy = tl.zeros([BK, BD], tl.float32)
    dw = tl.zeros([BK, BM], tl.float32)
    if CAUSAL:
        k, v = of_head(k, group, K, k_b, k_h), of_head(v, group, K, v_b, v_h)
        y = operand(load_rows(k, key, key < stop, D, k_n, BD), ROUNDED, OPERAND)
        w = operand(load_rows(v, key, key < stop, M, v_n, BM), ROUNDED, OPERAND)
        last = tl.minimum(segment * W + 2 * W, N)
        for r in range(R):
            head = group * R + r
            q_r, g_r = of_head(q, head, K * R, q_b, q_h), of_head(g, head, K * R, g_b, g_h)
            row = head.to(tl.int64) * N
            for at in range(start, last, BQ):
                token = at + tl.arange(0, BQ)
                x = operand(load_rows(q_r, token, token < last, D, q_n, BD), ROUNDED, OPERAND)
                u = operand(load_rows(g_r, token, token < last, M, g_n, BM), ROUNDED, OPERAND)
                final = tl.load(logsumexp + row + token, mask=token < last, other=float("inf"))
                delta = tl.load(deltas + row + token, mask=token < last, other=0.0)
                # a row for each key, a column for each query
                scores = tl.dot(y, tl.trans(x), input_precision=PRECISION) * LOG2_E - final[None, :]
                weights = tl.exp2(tl.where(token[None, :] >= key[:, None], scores, float("-inf")))
                dw = tl.dot(operand(weights, ROUNDED, OPERAND), u, acc=dw, input_precision=PRECISION)
                slopes = weights * (tl.dot(w, tl.trans(u), input_precision=PRECISION) - delta[None, :])
                dy = tl.dot(operand(slopes, ROUNDED, OPERAND), x, acc=dy, input_precision=PRECISION)
    if TABLE:
        place = 0
        if CAUSAL:
            place = segment
        # the last two segments are in no table
        inside = key < tl.minimum(stop, T * W)
        code = tl.load(of_head(codes, group, K, c_b, c_h) + key.to(tl.int64) * c_n, mask=inside, other=0)
        dw += load_rows(shares, of_table(group, place, S, T) + code, inside, M, M, BM)
    store_rows(of_head(dk, group, K, dk_b, dk_h), key, key < stop, D, dk_n, dy, BD)
    store_rows(of_head(dv, group, K, dv_b, dv_h), key, key < stop, M, dv_n, dw, BM)
