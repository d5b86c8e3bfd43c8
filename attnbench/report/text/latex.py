r"""Tables as LaTeX with booktabs and siunitx, to be \input into a paper; whatever is in a name or a reason is escaped."""

import re
import textwrap
from collections.abc import Sequence
from itertools import count

from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table

SPECIAL = {
    **{letter: f"\\{letter}" for letter in "{}$&%#_"},
    "\\": r"\textbackslash{}",
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
    "≤": r"$\le$",
    "·": r"$\cdot$",
    "‖": r"$\Vert$",
    "–": "--",
    "−": "$-$",
    "…": r"\dots{}",
}
"""What LaTeX is given for a letter, where that is not the letter itself."""
_POWER = re.compile(r"N\\textasciicircum\{\}(-?\d+\.\d+|x)")
_RAW_BAND = re.compile(r"\(-([\d.]+) \+([\d.]+)%\)")
_BAND = re.compile(r"\(-([\d.]+|a) \+([\d.]+|b)\\%\)")
_MARGIN = re.compile(r"\$\\pm\$([\d.]+|a)\\%")
_EXPONENT = re.compile(r"^e([+-]?)0*(\d+)")
_HYPHENS = re.compile("-(?=-)")
_NUMBER = re.compile(r"(-?\d+(?:,\d{3})*)(\.\d+)?(?![\d.,-])(.*)")
"""A number that siunitx aligns at its point, and what is behind it: an exponent, a unit, a range."""
_HEAD = r"""% needs \usepackage{booktabs,graphicx,siunitx}
% what is wider than the line is made smaller
\providecommand{\fitted}[1]{\sbox0{#1}\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi}
"""
# LaTeX holds back a few dozen floats at most
_FLUSH_EVERY = 12
_LINE, _GAP, _HEADER = 98, 2, 9
"""In letters: a line of \\scriptsize in a one-column paper, made smaller by a seventh at most; the space between
columns, a line of a header."""


def latex(tables: Sequence[Table]) -> str:
    """Return all tables as one file."""
    parts = [f"{one_table(table, name)}\n" for name, table in named(tables).items()]
    flushed = [f"{part}\\clearpage\n\n" if number % _FLUSH_EVERY == 0 else part for number, part in enumerate(parts, 1)]
    return "".join([_HEAD, "\n", *flushed]).rstrip() + "\n"


def files(tables: Sequence[Table]) -> dict[str, str]:
    """Return each table as a file of its own, by file name."""
    return {f"{name}.tex": f"{_HEAD}{one_table(table, name)}" for name, table in named(tables).items()}


def named(tables: Sequence[Table]) -> dict[str, Table]:
    """Name each table by its title, in letters that are fit for a file and a label; no two names are alike."""
    found: dict[str, Table] = {}
    for table in tables:
        name = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")[:80].strip("-") or "table"
        names = (f"{name}-{number}" if number > 1 else name for number in count(1))
        found[next(each for each in names if each not in found)] = table
    return found


def one_table(table: Table, name: str) -> str:
    """Return one float as wide as the page; a table that is wider goes on below, under the same first column."""
    notes = " \\par\n".join(escape(note) for note in table.notes)
    blocks = [f"\\fitted{{{_tabular(table, columns)}}}" for columns in _blocks(table)]
    lines = [
        "\\begin{table*}[tbp]",
        "\\centering\\scriptsize\\setlength{\\tabcolsep}{3pt}",
        "\\sisetup{detect-weight=true,group-digits=integer,group-separator={,},group-minimum-digits=5}",
        f"\\caption{{{escape(table.title)}}}\\label{{tab:{name}}}",
        "\n\\par\\smallskip\n".join(blocks),
        *([f"\\par\\smallskip\\parbox{{\\linewidth}}{{\\scriptsize\\raggedright\n{notes}\\par}}"] if notes else []),
        "\\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _blocks(table: Table) -> list[list[int]]:
    """Return the columns that fit side by side, the first column being in each block.

    Widths are in letters; aligned numbers take what the longest need before and after the point.
    """
    blocks: list[list[int]] = [[0]]
    widths = []
    for column, header in enumerate(table.headers):
        texts = [row[column] for row in table.rows]
        numbers = [number for text in texts if (number := _NUMBER.fullmatch(text))]
        aligned = sum(max((_letters(number[place] or "") for number in numbers), default=0) for place in (1, 2, 3))
        widths.append(max(aligned, *map(_letters, (*_broken(header), *texts))) + _GAP)
        if column and len(blocks[-1]) > 1 and sum(widths[c] for c in (*blocks[-1], column)) > _LINE:
            blocks.append([0])
        blocks[-1] += [column] if column else []
    return blocks


def _letters(text: str) -> float:
    """Estimate the width of a text as it is set; the ends of a band are small, and stand above each other."""
    band = _RAW_BAND.search(text)
    small = 0.75 * (1 + max(map(len, band.groups()))) + 1.6 if band else 0
    wide = {**dict.fromkeys(".,:;()[]il ", 0.5), **dict.fromkeys("mMN%×", 1.3)}
    return small + sum(wide.get(letter, 1) for letter in _RAW_BAND.sub("", text))


def _tabular(table: Table, columns: Sequence[int]) -> str:
    """Return the columns of a block; those with numbers are aligned by siunitx."""
    kinds, cells = [], [[_header(table.headers[column])] for column in columns]
    for place, column in enumerate(columns):
        texts = [row[column] for row in table.rows]
        numbers = [number for text in texts if column and (number := _NUMBER.fullmatch(text))]
        if numbers:
            # as wide as the longest numbers and what stands behind them
            weight = "\\bfseries " if any((row, column) in table.bold for row, _ in enumerate(texts)) else ""
            whole = max(len(number[1].lstrip("-").replace(",", "")) for number in numbers)
            fraction = max(len(number[2] or ".") - 1 for number in numbers)
            size = f"{'-' if any(number[1].startswith('-') for number in numbers) else ''}{whole}.{fraction}"
            behind = f"{weight}{_behind(max((number[3] for number in numbers), key=_letters))}"
            kinds.append(f"S[table-format={size},table-space-text-post={{{behind}}},table-align-text-post=false]")
        else:
            kinds.append("l")
        for row, text in enumerate(texts):
            bold = (row, column) in table.bold and text != ""
            if numbers and (number := _NUMBER.fullmatch(text)):
                digits = f"{number[1].replace(',', '')}{number[2] or ''}{{{_behind(number[3])}}}"
                cells[place].append(f"\\bfseries {digits}" if bold else digits)
            else:
                words = f"\\textbf{{{escape(text)}}}" if bold else escape(text)
                cells[place].append(f"{{{words}}}" if numbers and text else words)
    first, *others = (f"{' & '.join(map(_guarded, row))} \\\\" for row in zip(*cells, strict=True))
    lines = ["\\toprule", first, "\\midrule", *others, "\\bottomrule"]
    return "\n".join([f"\\begin{{tabular}}{{@{{}}{''.join(kinds)}@{{}}}}", *lines, "\\end{tabular}"])


def _behind(text: str) -> str:
    """Return what stands behind a number: a power of ten, a unit, a range."""
    if power := _EXPONENT.match(text):
        return f"$\\times10^{{{power[1].replace('+', '')}{power[2]}}}${_behind(text[power.end() :])}"
    return f"\\,{escape(text)}" if text.startswith(" ") else escape(text)


def escape(text: str) -> str:
    """Return plain text on one line, whatever it holds; a character that LaTeX's Latin fonts lack is named by its number."""
    # two hyphens in a row would become a dash
    pieces = _HYPHENS.split(one_line(text))
    plain = "-{}".join("".join(SPECIAL.get(c, c if c.isascii() else f"[U+{ord(c):04X}]") for c in piece) for piece in pieces)
    plain = _POWER.sub(r"$N^{\1}$", plain)
    plain = _BAND.sub(r"$^{+\2}_{-\1}$\\,\\%", plain)
    return _MARGIN.sub(r"$\\pm$\\,\1\\,\\%", plain)


def _header(text: str) -> str:
    """Return a heading in braces, over several lines where it is long."""
    lines = r"\\".join(_guarded(escape(line)) for line in _broken(text))
    return f"{{\\begin{{tabular}}[b]{{@{{}}l@{{}}}}{lines}\\end{{tabular}}}}" if r"\\" in lines else f"{{{lines}}}"


def _broken(header: str) -> list[str]:
    """Break a heading at spaces: long headings are what makes tables wide."""
    return textwrap.wrap(one_line(header), _HEADER + 1, break_long_words=False, break_on_hyphens=False) or [""]


def _guarded(text: str) -> str:
    """Guard what starts with a bracket or a star, which would be read as the option of the line break before it."""
    return f"{{}}{text}" if text.startswith(("[", "*")) else text
