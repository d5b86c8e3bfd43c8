"""Labels moved apart: as little as possible, in their order, within a range where they fit."""

from collections.abc import Sequence


def spread_apart(centres: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """New centres such that no two labels overlap; squared moves are least (pool adjacent violators).

    Labels that do not fit into [low, high] together start at `low` and run over `high`.
    """
    order = sorted(range(len(centres)), key=lambda i: centres[i])
    # blocks of touching labels: members, mean wish for the block's lower end, height
    blocks: list[tuple[list[int], float, float]] = []
    for i in order:
        blocks.append(([i], _clamp(centres[i] - heights[i] / 2, heights[i], low, high), heights[i]))
        while len(blocks) > 1 and blocks[-2][1] + blocks[-2][2] > blocks[-1][1]:
            upper, lower = blocks.pop(), blocks.pop()
            blocks.append(_merged(lower, upper, low, high))
    found = [0.0] * len(centres)
    for members, start, _ in blocks:
        lower_end = start
        for i in members:
            found[i] = lower_end + heights[i] / 2
            lower_end += heights[i]
    return found


def _merged(
    lower: tuple[list[int], float, float], upper: tuple[list[int], float, float], low: float, high: float
) -> tuple[list[int], float, float]:
    m, n, height = len(lower[0]), len(upper[0]), lower[2] + upper[2]
    wish = (m * lower[1] + n * (upper[1] - lower[2])) / (m + n)
    return [*lower[0], *upper[0]], _clamp(wish, height, low, high), height


def _clamp(start: float, height: float, low: float, high: float) -> float:
    return max(low, min(start, high - height))
