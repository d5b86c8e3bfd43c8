"""Which record of several counts: attempts, resumed runs and interruptions, told apart."""

from attnbench.analyze.digest import Digest


def counts_over(new: Digest, known: Digest | None) -> bool:
    """Of two records of one replicate of one pass: the last attempt counts; an interrupted one only where there is no other."""
    return known is None or _rank(new) >= _rank(known)


def _rank(digest: Digest) -> tuple[bool, int]:
    return not digest.interrupted, digest.attempt
