"""Heads of keys and values that serve several neighbouring heads of queries."""

from torch import Tensor


def served(q: Tensor, k: Tensor) -> int:
    """Count the heads of q [B, H, ...] that a head of k [B, K, ...] serves. Raises ValueError where K does not divide H."""
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"{k.shape[1]} heads of k and v: must divide the {q.shape[1]} heads of q")
    return q.shape[1] // k.shape[1]


def refuse_unfit(q: Tensor, k: Tensor, v: Tensor, dtypes: tuple[str, ...] = ()) -> None:
    """Raise ValueError unless they are [B, H, N, D], [B, K, N, D], [B, K, N, M] of one device and dtype, and K divides H.

    Kernels that take pointers follow the shape of some of them, and would read and write beyond the others. `dtypes` are those
    that the kernels compute in, if they do not say so themselves.
    """
    (B, H, N, D), heads = q.shape, k.shape[1]
    if not (heads and H % heads == 0 and k.shape == (B, heads, N, D) and v.shape[:3] == k.shape[:3]):
        shapes = ", ".join(str(list(x.shape)) for x in (q, k, v))
        raise ValueError(f"{shapes}: must be [B, H, N, D], [B, K, N, D], [B, K, N, M], where K divides H")
    if not (q.dtype == k.dtype == v.dtype and q.device == k.device == v.device):
        raise ValueError(f"{', '.join(f'{x.dtype} on {x.device}' for x in (q, k, v))}: must be of one dtype on one device")
    if dtypes and str(q.dtype).removeprefix("torch.") not in dtypes:
        raise ValueError(f"{q.dtype}: must be one of {', '.join(dtypes)}")


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
