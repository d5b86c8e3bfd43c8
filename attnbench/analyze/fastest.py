"""The fastest of one length, with all that cannot be told from it."""

import math

from attnbench.analyze.sections import Section


def fastest(section: Section, N: int) -> set[str]:
    """The label of least time per sample at one length, and those whose interval or band overlaps with its own."""
    cells = section.ok_at(N)
    first = min(cells.values(), key=lambda s: (s.median or math.inf) * s.per_sample, default=None)
    if first is None or first.interval is None:
        return set()
    mark = first.interval.times(first.per_sample)
    return {label for label, s in cells.items() if s.interval and s.interval.times(s.per_sample).overlaps(mark)}
