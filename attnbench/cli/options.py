"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

MOST_REPLICATES = 10**6
"""As many as a suite may have."""


def suite_names() -> list[str]:
    """List what a shell offers for a suite."""
    from attnbench.suite.load import shipped

    return list(shipped())


def words(given: list[str]) -> list[str]:
    """Split what was given: commas part, as repeating the option does. An empty word alone stays, and is refused later."""
    return [word.strip() for text in given for word in text.split(",") if word.strip()] or given


SuiteArgument = Annotated[
    str,
    typer.Argument(help="A suite file, or the name of one that ships; optional with --methods.", autocompletion=suite_names),
]
OnlyMethods = Annotated[
    list[str],
    typer.Option(
        "--methods", help="Only these, or these without a suite, as 'linear.*,softmax.sdpa' or 'lsh.reformer(rounds=8)'."
    ),
]
Lengths = Annotated[list[str], typer.Option("--N", help="These lengths, as 512..8192 (by powers of two) or 512,700.")]
Workloads = Annotated[
    list[str], typer.Option("--workloads", help="These workloads, as forward,forward_backward,decode.", metavar="WORDS")
]
Causal = Annotated[bool | None, typer.Option("--causal/--non-causal", help="Only so; without a suite causal.")]
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
Replicates = Annotated[
    int | None, typer.Option(min=1, max=MOST_REPLICATES, help="Processes per cell; instead of the suite's own.")
]
Results = Annotated[Path, typer.Option(help="Where run folders are made.")]
Margin = Annotated[str, typer.Option(help="The smallest effect that matters: 5% or 0.05. On a shared CI runner rather 25%.")]
AcrossMachines = Annotated[
    bool, typer.Option("--across-machines", help="Exit by the verdicts also where the two runs are of unlike machines.")
]
Outs = Annotated[list[Path], typer.Option("--out", help="Write .md, .tex, .csv, .png, .svg or .pdf. May be repeated.")]
