r"""Tables as LaTeX with booktabs, to be \input into a paper; whatever is in a name or a reason is escaped."""

import re
from collections.abc import Container, Sequence

from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "`": "{`}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "µ": r"$\mu$",
    "∝": r"$\propto$",
    "·": r"$\cdot$",
    "–": "--",
    "−": "$-$",
    "…": r"\dots{}",
}
_POWER = re.compile(r"N\\textasciicircum\{\}(-?\d+\.\d+|x)")
# a range that is no interval, and an interval: letters in their explanation below
_BAND = re.compile(r"\(-([\d.]+|a) \+([\d.]+|b)\\%\)")
_MARGIN = re.compile(r"\$\\pm\$([\d.]+|a)\\%")
_UNIT = r"%|×|k| ?(?:s|ms|µs|ns|B|KiB|MiB|GiB|TiB)"
_RANGE = r" ±[\d.]+%| \(-[\d.]+ \+[\d.]+%\)| \[[^\[\]]*\]| \(baseline\)"
_NUMBER = re.compile(rf"(-?\d+)(\.\d+)?((?:e[+-]\d+)?(?:{_UNIT})?(?:{_RANGE})?)")
_HYPHENS = re.compile("-(?=-)")
_HEAD = """\
% needs \\usepackage{booktabs}
"""
# LaTeX holds back a few dozen floats at most
_FLUSH_EVERY = 12
# in letters of scriptsize: a line of a full-width float, the space between columns, a line of a header
_PAGE, _GAP, _HEADER = 130, 2, 9


def latex(tables: Sequence[Table]) -> str:
    """All tables, each a full-width float with its notes below."""
    parts = [_HEAD]
    for number, table in enumerate(tables, 1):
        parts.append(one_table(table))
        if number % _FLUSH_EVERY == 0:
            parts.append("\\clearpage\n")
    return "\n".join(parts)


def one_table(table: Table) -> str:
    """One `table*`; a table wider than the page goes on below, under the same first column."""
    notes = " \\par\n".join(escape(note) for note in table.notes)
    lines = [
        "\\begin{table*}[htbp]",
        "\\centering\\scriptsize\\setlength{\\tabcolsep}{3pt}",
        f"\\caption{{{escape(table.title)}}}",
        "\n\\par\\smallskip\n".join(_tabular(table, columns) for columns in _blocks(table)),
        f"\\par\\smallskip\\parbox{{\\textwidth}}{{\\scriptsize\\raggedright\n{notes}\\par}}",
        "\\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _blocks(table: Table) -> list[list[int]]:
    """Columns that fit side by side, the first column being in each block."""
    widths = [_width(header, [row[column] for row in table.rows]) + _GAP for column, header in enumerate(table.headers)]
    blocks: list[list[int]] = [[0]]
    for column, width in enumerate(widths[1:], 1):
        if len(blocks[-1]) > 1 and sum(widths[c] for c in blocks[-1]) + width > _PAGE:
            blocks.append([0])
        blocks[-1].append(column)
    return blocks


def _width(header: str, texts: Sequence[str]) -> int:
    """In letters; of numbers that are aligned at their points, the longest before it and the longest after it."""
    numbers = [number for text in texts if (number := _NUMBER.fullmatch(text))]
    before, after = ([len(part) for part in parts] for parts in ((n[1] for n in numbers), (n[0][n.end(1) :] for n in numbers)))
    return max(max(before, default=0) + max(after, default=0), *map(len, (*_broken(header), *texts)))


def _tabular(table: Table, columns: Sequence[int]) -> str:
    """Numbers are aligned at their points: each such column is two, for what is before and what is after."""
    numeric = {column for column in columns if column and any(_NUMBER.fullmatch(row[column]) for row in table.rows)}
    rows = [_line([part for c in columns for part in _entry(table, row, c, numeric)]) for row in range(len(table.rows))]
    head = _line([_header(table.headers[column], numeric=column in numeric) for column in columns])
    kinds = "".join("r@{}l" if column in numeric else "l" for column in columns)
    begin = f"\\begin{{tabular}}{{@{{}}{kinds}@{{}}}}"
    return "\n".join([begin, "\\toprule", head, "\\midrule", *rows, "\\bottomrule", "\\end{tabular}"])


def escape(text: str) -> str:
    """Plain text, on one line, whatever it holds; a character that LaTeX's Latin fonts lack is named by its number."""
    # two hyphens in a row would become a dash
    pieces = _HYPHENS.split(one_line(text))
    plain = "-{}".join("".join(_SPECIAL.get(c, c if c.isascii() else f"[U+{ord(c):04X}]") for c in piece) for piece in pieces)
    plain = _POWER.sub(r"$N^{\1}$", plain)
    plain = _BAND.sub(r"$^{+\2}_{-\1}$\\,\\%", plain)
    return _MARGIN.sub(r"$\\pm$\\,\1\\,\\%", plain)


def _entry(table: Table, row: int, column: int, numeric: Container[int]) -> list[str]:
    """One column, or two; what is no number in a column of numbers goes over both."""
    text, bold = table.rows[row][column], (row, column) in table.bold
    if column not in numeric:
        return [_weighted(escape(text), bold=bold)]
    number = _NUMBER.fullmatch(text)
    if number is None and text:
        return [f"\\multicolumn{{2}}{{l}}{{{_weighted(escape(text), bold=bold)}}}"]
    whole, fraction, rest = number.groups(default="") if number else ("", "", "")
    after = f"\\,{escape(rest)}" if rest.startswith(" ") else escape(rest)
    return [_weighted(part, bold=bold) for part in (whole, fraction + after)]


def _weighted(text: str, *, bold: bool) -> str:
    return f"\\textbf{{{text}}}" if bold and text else text


def _header(text: str, *, numeric: bool) -> str:
    """A nested column where it has several lines."""
    lines = r"\\".join(_guarded(escape(line)) for line in _broken(text))
    nested = f"\\begin{{tabular}}[b]{{@{{}}l@{{}}}}{lines}\\end{{tabular}}" if r"\\" in lines else lines
    return f"\\multicolumn{{2}}{{l}}{{{nested}}}" if numeric else nested


def _broken(header: str) -> list[str]:
    """Over lines, at spaces: long headers are what makes tables wide."""
    lines = [""]
    for word in header.split():
        lines.append(word) if len(lines[-1]) + len(word) > _HEADER else lines.append(f"{lines.pop()} {word}".strip())
    return [line for line in lines if line] or [""]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(map(_guarded, cells)) + " \\\\"


def _guarded(text: str) -> str:
    """What starts with a bracket or a star would be read as the option of the line break before it."""
    return f"{{}}{text}" if text.startswith(("[", "*")) else text
