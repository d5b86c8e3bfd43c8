"""The trend of the runs of one suite on one machine."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnbench.analyze.points import points
from attnbench.analyze.trend import Metric, Trends, look
from attnbench.analyze.verdict import MARGIN
from attnbench.report.questions.trend.page import page
from attnbench.report.questions.trend.words import conclusion
from attnbench.report.site.runs.addresses import TREND
from attnbench.report.site.runs.shelf import Link, Shelf
from attnbench.report.site.runs.survey import Found
from attnbench.report.text.counts import counted
from attnbench.report.text.names import one_line
from attnbench.schema.history import Entry
from attnbench.store.index import Index
from attnbench.store.run_folder import RunFolder


@dataclass(frozen=True)
class TrendLine:
    """What the index says of a trend."""

    link: Link
    words: str


def write_trend(runs: Sequence[Found], shelf: Shelf) -> TrendLine:
    """The page of two or more runs; raises StoreError, OSError."""
    trends = _trends(runs)
    link = shelf.write(TREND, page(trends))
    name = f"Trend of {trends.metric.value} over {counted(len(runs), 'run')}"
    return TrendLine(Link(link.href, name), one_line(f"{conclusion(trends)}."))


def _trends(runs: Sequence[Found]) -> Trends:
    """Of time; of memory, where nothing was timed."""
    with Index(None) as index:
        for found in runs:
            folder = RunFolder(found.path)
            info = folder.info()
            summary = points(info, folder.read())
            index.add(Entry.of(found.place, info, summary), summary.points)
        entries, tracks = index.entries(), index.tracks(lambda *_: True)
    timed = any(bool(np.isfinite(track.seconds).any()) for track in tracks)
    return look(entries, tracks, Metric.TIME if timed or not tracks else Metric.MEMORY, MARGIN)
