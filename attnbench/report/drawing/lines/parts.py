"""Panels that can be read: a section of many methods is drawn in parts, family by family."""

import math
from dataclasses import replace

from attnbench.analyze.sections import Section

MOST = 16
"""Methods in one panel."""


def parts(section: Section, most: int = MOST) -> list[Section]:
    """The section itself; or, of more methods than fit, one section a family, and several of a family that is larger."""
    if len(section.series) <= most:
        return [section]
    families: dict[str, list[str]] = {}
    for label, series in section.series.items():
        families.setdefault(series[0].cell.method.partition(".")[0], []).append(label)
    return [part for family, labels in families.items() for part in _cut(section, family, labels, most)]


def _cut(section: Section, family: str, labels: list[str], most: int) -> list[Section]:
    count = math.ceil(len(labels) / most)
    size = math.ceil(len(labels) / count)
    found = []
    for number in range(count):
        chosen = set(labels[number * size : (number + 1) * size])
        name = f"{family} ({number + 1} of {count})" if count > 1 else family
        cells = tuple(s for s in section.summaries if s.cell.label in chosen)
        found.append(replace(section, conditions=f"{section.conditions}, {name}", summaries=cells))
    return found
