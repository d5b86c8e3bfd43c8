"""The checks of `factor` and `keep`."""


def refuse_bad_factor(factor: object) -> None:
    """Raise ValueError unless factor is a whole number of 1 or more."""
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise ValueError(f"factor={factor!r}: must be a whole number, 1 or more")


def refuse_bad_share(keep: object) -> None:
    """Raise ValueError unless keep is a share above 0, at most 1."""
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep <= 1:
        raise ValueError(f"keep={keep!r}: must be a number above 0, at most 1")
