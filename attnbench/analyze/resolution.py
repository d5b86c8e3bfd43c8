"""Resolution: what the replicates at hand tell from chance, and how many a margin would take."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from attnbench.analyze.ratio import Ratio
from attnbench.analyze.statistics import t_quantile

_MOST = 10_000


@dataclass(frozen=True)
class Resolution:
    """Of the cells of one judgement, the one in the middle and the worst."""

    replicates: int
    """A side, of the cell that has the fewest."""
    typical: float
    """Half of the 95 % interval of a ratio, as a share: differences below it are not told from none."""
    worst: float
    enough: int
    """Replicates a side after which the cell in the middle has an interval as narrow as the margin on either side."""
    enough_for_worst: int


def resolution(ratios: Iterable[Ratio], margin: float) -> Resolution | None:
    """None where no ratio has an interval yet."""
    known = [each for each in ratios if each.interval is not None]
    if not known:
        return None
    halves, counts = [_half(each) for each in known], [_enough(each, margin) for each in known]
    return Resolution(
        replicates=min(each.replicates for each in known),
        typical=math.expm1(statistics.median(halves)),
        worst=math.expm1(max(halves)),
        enough=statistics.median_low(counts),
        enough_for_worst=max(counts),
    )


def _half(ratio: Ratio) -> float:
    assert ratio.interval is not None
    return math.log(ratio.interval.high / ratio.interval.low) / 2


def _enough(ratio: Ratio, margin: float) -> int:
    """By the spread that was seen so far; 10,000 stands for that and more."""
    n, sides = ratio.replicates, 1 if ratio.paired else 2
    spread = _half(ratio) * math.sqrt(n) / t_quantile(sides * (n - 1))
    fits = (m for m in range(2, _MOST) if t_quantile(sides * (m - 1)) * spread <= math.log1p(margin) * math.sqrt(m))
    return next(fits, _MOST)
