"""The numerics figure: how far outputs and gradients are rounded from their definition, against length."""

from collections.abc import Sequence

from attnbench.analyze.sections import Section
from attnbench.report.conditions import device_name
from attnbench.report.drawing.board import Board
from attnbench.report.drawing.caption import CROSSES, RANGES, panel_reasons, text
from attnbench.report.drawing.lines import quantity
from attnbench.report.drawing.lines.over_length import over_length
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.findings import Findings
from attnbench.report.questions.fidelity.notes import gradient_note, rounding_note, score_notes
from attnbench.schema.outcome import GRADIENT_ROUNDING, ROUNDING

_SHOWN = (quantity.error(ROUNDING, "rounding of rows"), quantity.error(GRADIENT_ROUNDING, "rounding of gradients"))


def numerics_board(findings: Findings, sections: Sequence[Section], sheet: Sheet) -> Board:
    """A row for each section; outputs, and beside them gradients where some method has them."""
    has = [shown for shown in _SHOWN if any(shown.points(section.summaries) for section in sections)]
    return over_length(findings, sections, has or _SHOWN[:1], sheet)


def numerics_caption(findings: Findings, sections: Sequence[Section]) -> str:
    """What is seen, and how it was measured."""
    cells = [summary for section in sections for summary in section.summaries]
    lines = [
        f"numerics: rounding of rows and of gradients against length N, both axes logarithmic. {device_name(findings)}.",
        *(rounding_note(), gradient_note(), RANGES, CROSSES),
        *panel_reasons(sections),
        *score_notes(findings, cells),
    ]
    return text(list(dict.fromkeys(lines)))
