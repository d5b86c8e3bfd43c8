"""Arguments and options that several commands have."""

import json
from pathlib import Path
from typing import Annotated

import typer

from attnbench.schema.errors import ArgumentError

MOST_REPLICATES = 10**6
"""As many as a suite may have."""
SuiteArgument = Annotated[str, typer.Argument(help="A suite file, or the name of one that ships: quick, scaling.")]
MethodArgument = Annotated[
    str, typer.Argument(help="A method as `attnbench methods` lists it, or module:Class, or file.py:Class.")
]
RunArgument = Annotated[Path, typer.Argument(help="A run folder, as results/quick/20260102-030405-abcdef.")]
HistoryArgument = Annotated[str, typer.Argument(help="A folder of runs, as results, or a URL as s3://bucket/runs.")]
Impls = Annotated[
    list[str], typer.Option("--impl", help="Add your own attention, as module:Class or file.py:Class. May be repeated.")
]
Params = Annotated[list[str], typer.Option("--param", help="A parameter, as stride=8. May be repeated.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; instead of the suite's own.")]
NoWait = Annotated[
    bool,
    typer.Option("--no-wait", help="Exit with 75 where another run is measuring on the device, instead of waiting for it."),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="A new interpreter for each process, not a fork.")]
Results = Annotated[Path, typer.Option(help="Where run folders are made.")]
Margin = Annotated[str, typer.Option(help="The smallest effect that matters: 5% or 0.05. On a shared CI runner rather 25%.")]
AcrossMachines = Annotated[
    bool, typer.Option("--across-machines", help="Exit by the verdicts also where the two runs are of unlike machines.")
]
Outs = Annotated[list[Path], typer.Option("--out", help="Write .md, .tex, .csv, .png, .svg or .pdf. May be repeated.")]


def parameters(given: list[str]) -> dict[str, bool | int | float | str]:
    """`stride=8` by name: a number, true or false, or else a word. Raises ArgumentError."""
    found: dict[str, bool | int | float | str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        # a command line may hold bytes that are no letters
        if not equals or not name.isidentifier() or any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ArgumentError("param", text, "write it as name=value, for example --param stride=8")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        found[name] = read if isinstance(read, bool | int | float) else value
    return found
