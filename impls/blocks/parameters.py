"""The check of whole-number parameters of attention over blocks."""


def refuse_bad_count(value: object, name: str, least: int = 1) -> None:
    """Raise ValueError unless the value is a whole number of `least` or more, below 2^31 so that products fit into int64."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}: must be a whole number, {least} or more")
    if value >= 1 << 31:
        raise ValueError(f"{name}={value!r}: must be below 2^31")
