"""Memory of one call of reformer-pytorch 1.4.4, tensor by tensor as its forward allocates them.

A slot is one token in one round; D width of queries, keys and values, R rounds, m bucket size.
"""

from attnbench.api import Problem

from .options import Options


def peak_bytes(p: Problem, options: Options, trains: bool) -> float:
    """Count the bytes at the peak, the largest of four moments for each slot.

    From the second moment on, gathered queries, keys and values take 6 D values, and sorting some ten int64.
    """
    moments = (_hashing(p, options), _duplicates(p, options), _softmax(p, options, trains), _rounds(p, options, trains))
    return p.B * p.H * p.N * options.rounds * max(moments)


def _hashing(p: Problem, options: Options) -> float:
    """Count the bytes of the N/m projections, half of them negated copies of the other half, and all of them joined."""
    return 2.0 * p.N / options.bucket_size * p.dtype.bytes


def _duplicates(p: Problem, options: Options) -> float:
    """Count the bytes where duplicates are corrected: pairs with 2R places, counts twice in int64, and the logits."""
    if options.allow_duplicate_attention:
        return 0.0
    pairs = 2 * options.bucket_size
    return (6 * p.D + pairs) * p.dtype.bytes + pairs * (2 * options.rounds + 16) + 64 * options.rounds + 76


def _softmax(p: Problem, options: Options, trains: bool) -> float:
    """Count the bytes of the 2m logits with two copies; in the backward five, and the masks."""
    pairs = 2 * options.bucket_size
    if trains:
        return (5 * p.D + p.D / options.rounds + 5 * pairs) * p.dtype.bytes + _masks(p, options) + 32
    return (6 * p.D + 3 * pairs) * p.dtype.bytes + 76


def _rounds(p: Problem, options: Options, trains: bool) -> float:
    """Count the bytes of outputs sorted, unsorted and weighted, beside the logits, which autograd keeps twice with masks."""
    values, pairs = 9 * p.D + p.D / options.rounds, 2 * options.bucket_size
    if trains:
        return (values + 2 * pairs) * p.dtype.bytes + _masks(p, options) + 94
    return (values + pairs) * p.dtype.bytes + 76


def _masks(p: Problem, options: Options) -> int:
    """Count one mask for self, one if causal, one where other buckets are hidden; a byte for each of 2m pairs."""
    return 2 * options.bucket_size * (1 + p.causal + (not options.attend_across_buckets))
