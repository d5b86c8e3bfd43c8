"""Seconds, bytes and counts as people read them. Data holds SI numbers; only this file knows prefixes."""

_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def three_digits(value: float) -> str:
    """Three significant digits, never in exponent form: 1234, 12.3, 0.123."""
    if value == 0:
        return "0"
    text = f"{value:#.3g}"
    return f"{float(text):.0f}" if "e" in text or abs(value) >= 100 else text.rstrip(".")


def seconds(value: float) -> str:
    """12.3 ms."""
    scale, unit = next(((s, u) for s, u in _TIME if abs(value) >= s), _TIME[-1])
    return f"{three_digits(value / scale)} {unit}"


def bytes_(value: float) -> str:
    """64 MiB: binary prefixes, as allocators count."""
    scale, unit = next(((s, u) for s, u in _BYTES if abs(value) >= s), _BYTES[-1])
    return f"{three_digits(value / scale)} {unit}"


def length(value: int) -> str:
    """2^9 as 512, 2^16 as 64k: powers of two from 1024 on are shortened."""
    return f"{value // 1024}k" if value >= 1024 and value % 1024 == 0 else str(value)
