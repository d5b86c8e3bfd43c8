"""Checks of parameters that are counts or flags."""


def refuse_bad_counts(**counts: int) -> None:
    """Raise ValueError unless each is a whole number, 1 or more."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value!r}: must be a whole number, 1 or more")


def refuse_bad_flags(**flags: bool) -> None:
    """Raise ValueError unless each is true or false."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name}={value!r}: must be true or false")
