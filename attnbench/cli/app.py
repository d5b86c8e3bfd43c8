"""The command line: each command parses, calls the function of the same name in `attnbench`, and prints.

What a command needs is imported when it is called: so `attnbench --help` answers at once, and nothing here imports torch,
pandas or matplotlib.
"""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from attnbench.cli.measuring import measuring
from attnbench.cli.reading import reading
from attnbench.cli.terminal import explained, speak_plainly
from attnbench.version import __version__

app = typer.Typer(
    name="attnbench",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attnbench {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Time, memory and quality of efficient attentions, measured honestly and compared."""


app.add_typer(measuring)
app.add_typer(reading)


def main() -> None:
    """Run the command that was typed: the console script."""
    if sys.stdout is None:
        # it was closed, and the next file that is opened would be taken for it
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as this process lives
    # nearly all that a command makes it keeps until it ends, and a tenth of its time would go into looking for what it does not
    gc.set_threshold(100_000)
    speak_plainly()
    with explained():
        app()
