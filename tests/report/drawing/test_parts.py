"""A section of many methods is drawn in parts."""

from typing import TYPE_CHECKING

from attnbench.analyze.cells import summarize
from attnbench.analyze.sections import Section, sections
from attnbench.report.drawing.lines.parts import MOST, parts
from attnbench.schema.cell import Workload

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic


def section(synthetic: "type[Synthetic]", law: "type[Law]", names: list[str]) -> Section:
    laws = [law(name, 1e-3, 1.0) for name in names]
    made = synthetic(laws, lengths=(512, 1024), causal=(True,), workloads=(Workload.FORWARD,))
    (found,) = sections(summarize(made.run().cells, made.records()), made.run().suite.axes)
    return found


def test_what_fits_stays_one_panel(synthetic: "type[Synthetic]", law: "type[Law]") -> None:
    whole = section(synthetic, law, [f"a.{i}" for i in range(MOST)])
    assert parts(whole) == [whole]


def test_more_methods_are_parted_by_family_and_a_large_family_is_cut(synthetic: "type[Synthetic]", law: "type[Law]") -> None:
    whole = section(synthetic, law, [*(f"a.{i}" for i in range(MOST + 1)), "b.x", "c.y", "b.z"])
    found = parts(whole)
    assert [part.conditions for part in found] == ["float32, a (1 of 2)", "float32, a (2 of 2)", "float32, b", "float32, c"]
    assert [len(part.series) for part in found] == [9, 8, 2, 1]
    assert sorted(s.cell.key for part in found for s in part.summaries) == sorted(s.cell.key for s in whole.summaries)
