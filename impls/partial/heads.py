"""Heads of keys and values that serve several neighbouring heads of queries."""

from torch import Tensor


def served(q: Tensor, k: Tensor) -> int:
    """Count the heads of q [B, H, ...] that a head of k [B, K, ...] serves. Raises ValueError where K does not divide H."""
    group, left = divmod(q.shape[1], k.shape[1])
    if left:
        raise ValueError(f"{k.shape[1]} heads of k and v: must divide the {q.shape[1]} heads of q")
    return group


def of_each_head(q: Tensor, *of_keys: Tensor) -> tuple[Tensor, ...]:
    """Repeat what belongs to a head of k, [B, K, N, ...], for the heads of q [B, H, N, D] that it serves: [B, H, N, ...].

    Raises ValueError where K does not divide H.
    """
    group = served(q, of_keys[0])
    return of_keys if group == 1 else tuple(x.repeat_interleave(group, dim=1) for x in of_keys)


def by_token(q: Tensor, heads: int) -> Tensor:
    """Put the queries of a token that read the same head of k beside each other: [B, H, N, D] -> [B K, N, H / K, D].

    K is `heads`. It is a view where q is dense.
    """
    grouped: Tensor = q.unflatten(1, (heads, -1))
    return grouped.flatten(0, 1).transpose(1, 2)
