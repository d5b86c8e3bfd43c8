"""docs/codes.md against the code: whoever adds an exit code, a command or a status is asked for its row."""

import ast
import signal
from collections.abc import Iterator
from pathlib import Path

import typer

from attnbench.analyze.cells import NOT_RUN, OK
from attnbench.analyze.compare import Exit
from attnbench.cli import terminal
from attnbench.cli.app import app
from attnbench.report.text.statuses import short
from attnbench.schema.outcome import Status

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "codes.md").read_text(encoding="utf-8")
ENDS = {"sys.exit", "os._exit", "SystemExit", "typer.Exit", "exit"}


def table(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, its head first."""
    lines = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in rows if not set("".join(row)) <= {"-"}]


HEAD, *ROWS = table("Exit codes of commands")


def commands(group: typer.Typer, before: str = "") -> Iterator[tuple[str, set[str]]]:
    """All commands with the names of their parameters."""
    for command in group.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        yield f"{before}{name}", set(command.callback.__annotations__)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        callback = inner.typer_instance.registered_callback
        if callback is not None and callback.invoke_without_command is True:
            yield f"{before}{inner.name}", set()
        yield from commands(inner.typer_instance, f"{before}{inner.name} " if isinstance(inner.name, str) else before)


def exits(file: Path) -> Iterator[ast.expr]:
    """With what a file ends the process."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ENDS:
            yield from node.args[:1] or [keyword.value for keyword in node.keywords]


def test_every_command_and_no_other_has_its_row_with_a_code_for_all_that_it_can_end_with() -> None:
    rows = {row[0].strip("`"): dict(zip(HEAD[1:], row[1:], strict=True)) for row in ROWS}
    assert set(rows) == dict(commands(app)).keys()
    for name, parameters in commands(app):
        row = rows[name]
        assert all(row[code] for code in ("0", "1", "2", "130, 143")), name
        assert bool(row["75"]) == ("no_wait" in parameters), name
        assert bool(row["3"]) == bool(row["4"]) == (name in {"gate", "compare"}), name


def test_every_exit_code_has_its_column_and_no_command_ends_with_a_number_that_has_no_name() -> None:
    named = {value for name, value in vars(terminal).items() if name.isupper() and isinstance(value, int)}
    interrupted = {128 + signal.SIGINT, 128 + signal.SIGTERM}
    assert {int(code) for column in HEAD[1:] for code in column.split(",")} == {0} | named | set(Exit) | interrupted
    # but children and servers, whose codes no user sees
    files = [file for file in (ROOT / "attnbench").rglob("*.py") if file.parent.name != "worker"]
    assert [file.name for file in files for code in exits(file) if isinstance(code, ast.Constant)] == []


def test_every_status_has_its_row_in_the_words_of_tables_and_no_other() -> None:
    _, *rows = table("Statuses of cells")
    said = {row[0].strip("`"): row[1] for row in rows}
    assert said == {status: short(status) for status in (OK, NOT_RUN, *(status.value for status in Status))}
    assert all(row[2] for row in rows)
