"""What can be told apart now, in words: said after the first look of a comparison that goes on."""

from collections.abc import Iterable

from attnbench.analyze.ratio import Ratio
from attnbench.analyze.resolution import resolution
from attnbench.report.text.numbers import percent


def told_apart(ratios: Iterable[Ratio], margin: float) -> str:
    """`after 5 replicates a side ±3.1% is told from chance (worst cell ±12%); a verdict at 5% takes about 4 (…)`."""
    found = resolution(ratios, margin)
    if found is None:
        return "nothing can be told apart yet: no cell has two replicates a side"
    several = found.worst > found.typical
    worst = (f" (worst cell ±{percent(found.worst)})", f" (worst cell {found.enough_for_worst})") if several else ("", "")
    return (
        f"after {found.replicates} replicates a side ±{percent(found.typical)} is told from chance{worst[0]}; "
        f"a verdict at the margin of {percent(margin)} takes about {found.enough}{worst[1]}"
    )
