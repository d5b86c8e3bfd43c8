"""Bytes that a step over table and window moves and allocates, with the letters of work.py.

b = B·H rows.
"""

from attnbench.api import Problem, Workload, io_bytes

from .options import RELATIVE, VQOptions
from .work import decoded, filled


def state_bytes(p: Problem, o: VQOptions) -> float:
    """Count the bytes of means and counts, float32 at least, and of k̂, v and codes of 2L tokens."""
    table = o.codes * (p.M + 1) * max(4, p.dtype.bytes)
    return float(p.B * p.H * (table + 2 * o.block * _token_bytes(p)))


def traffic_bytes(p: Problem, o: VQOptions, workload: Workload) -> float:
    """Count the bytes that steps read (window, table if any, and the batch's codebook) and write (its token)."""
    steps, windows, tables, _ = decoded(p.N, o.block, whole=workload is Workload.DECODE_TOTAL)
    table = o.codes * (p.M + 1) * max(4, p.dtype.bytes)
    keys = windows * (p.D + p.M) * p.dtype.bytes + steps * _token_bytes(p)
    return io_bytes(p, workload) + p.B * p.H * (keys + tables * table) + steps * p.H * o.codes * p.D * 4.0


def peak_bytes(p: Problem, o: VQOptions, workload: Workload) -> float:
    """Count the bytes of the worst step, and of the state where decoding starts from nothing."""
    if workload is Workload.DECODE:
        return _step(p, o, filled(p.N, o.block), tables=2 * o.block < p.N, folds=filled(p.N - 1, o.block) == 2 * o.block)
    last = min(p.N, 2 * o.block)
    return state_bytes(p, o) + _step(p, o, last, tables=last < p.N, folds=last < p.N)


def _token_bytes(p: Problem) -> int:
    return (p.D + p.M) * p.dtype.bytes + 8


def _step(p: Problem, o: VQOptions, window: int, *, tables: bool, folds: bool) -> float:
    """Count the bytes of choosing (codebook as kept and as computed with, its squares), of reading, or of merging a block."""
    e, w, rows, S = p.dtype.bytes, max(4, p.dtype.bytes), p.B * p.H, o.codes
    book, widest = p.H * S * p.D, max(p.D, p.M)
    choosing = book * (4 + (e if e > 4 else 0)) + max(book, rows * S) * w
    relative = (o.bias == RELATIVE) * rows * 2 * window * w
    reading = book * (e + (4 if e < 4 and tables else 0)) + rows * (2 * p.D * e + 3 * p.M * w + tables * S * w) + relative
    # what the kernel needs in one width is copied
    padded = rows * max(window * e, tables * S * w) * widest if p.D != p.M else 0
    # values of the oldest block are copied, and again where sums are wider
    copies = o.block * p.M * (w + (e if e < 4 else 0))
    fold = book * e + rows * (S * (p.M + 2) * w + copies) if folds else 0
    return float(max(choosing, reading + padded, fold))
