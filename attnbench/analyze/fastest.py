"""The fastest of one length, with all that cannot be told from it."""

from attnbench.analyze.sections import Section


def fastest(section: Section, N: int) -> set[str]:
    """The label of least time per sample at one length, and those whose interval or band overlaps with its own."""
    times = {label: cell.time for label, cell in section.ok_at(N).items() if cell.time is not None}
    first = min(times.values(), key=lambda time: time.value, default=None)
    return {label for label, time in times.items() if first is not None and time.interval.overlaps(first.interval)}
