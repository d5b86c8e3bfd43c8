"""Trends as JSON, for programs."""

import json
import math

from attnbench.analyze.trend import Trend, Trends, Turn
from attnbench.report.questions.trend.names import track_names
from attnbench.report.questions.trend.words import conclusion, extent, notes, title

VERSION = 1


def trend_json(trends: Trends) -> str:
    """What was asked, and one object a series in the order of the history; SI units, null for what is missing."""
    names = track_names(trend.track for trend in trends.trends)
    data = {
        "schema_version": VERSION,
        "title": title(trends),
        "extent": extent(trends),
        "conclusion": conclusion(trends),
        "metric": trends.metric.value,
        "margin": trends.margin,
        "notes": notes(trends),
        "series": [_series(trends, trend, names[trend.track.suite, trend.track.cell.key]) for trend in trends.trends],
    }
    return json.dumps(data, allow_nan=False, indent=1, ensure_ascii=False) + "\n"


def _series(trends: Trends, trend: Trend, name: str) -> dict[str, object]:
    return {
        "suite": trend.track.suite,
        "machine": trend.track.machine,
        "name": name,
        "cell": trend.track.cell.key,
        "state": trend.state.value,
        "runs": len(trend.used),
        "newest": _number(trend.newest),
        "smallest_change_seen": _number(trend.smallest),
        "changes": [_change(trends, turn) for turn in trend.turns],
    }


def _change(trends: Trends, turn: Turn) -> dict[str, object]:
    interval = turn.interval
    return {
        "verdict": turn.verdict.value,
        "last_run_before": trends.entries[turn.last].run,
        "first_run_after": trends.entries[turn.first].run,
        "commit_after": trends.entries[turn.first].commit,
        "before": _number(turn.before),
        "after": _number(turn.after),
        "ratio": _number(turn.factor),
        "interval": [interval.low, interval.high] if interval else None,
        "status": turn.status or None,
        "reason": turn.reason or None,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
