"""The statistics that pytest-benchmark stores, by its definitions."""

import statistics
from collections.abc import Sequence


def round_stats(values: Sequence[float]) -> dict[str, object]:
    """Of positive numbers, at least one; a single one has no spread.

    Quartiles: of an odd number by method 3, of an even number by method 2 of Wikipedia's article "Quartile".
    """
    data = sorted(values)
    mean, stddev = statistics.mean(data), statistics.stdev(data) if len(data) > 1 else 0.0
    q1, q3 = _quartiles(data)
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    beyond_stddev = sum(abs(value - mean) > stddev for value in data)
    beyond_fences = sum(not low <= value <= high for value in data)
    return {
        "min": data[0],
        "max": data[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": len(data),
        "median": statistics.median(data),
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": beyond_fences,
        "stddev_outliers": beyond_stddev,
        "outliers": f"{beyond_stddev};{beyond_fences}",
        "ld15iqr": min(value for value in data if value >= low),
        "hd15iqr": max(value for value in data if value <= high),
        "ops": len(data) / sum(data),
        "total": sum(data),
        "data": list(values),
        "iterations": 1,
    }


def _quartiles(data: Sequence[float]) -> tuple[float, float]:
    """Of sorted numbers."""
    if len(data) == 1:
        return data[0], data[0]
    half = len(data) // 2
    if len(data) % 2 == 0:
        return statistics.median(data[:half]), statistics.median(data[half:])
    n, rest = divmod(len(data), 4)
    if rest == 1:
        return 0.25 * data[n - 1] + 0.75 * data[n], 0.75 * data[3 * n] + 0.25 * data[3 * n + 1]
    return 0.75 * data[n] + 0.25 * data[n + 1], 0.25 * data[3 * n + 1] + 0.75 * data[3 * n + 2]
