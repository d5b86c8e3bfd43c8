"""The commands that make something of stored runs; as in `app`, what a command needs is imported when it is called."""

import re
import sys
import webbrowser
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

import attnbench
from attnbench.cli.options import HistoryArgument, Margin, MethodArgument, Params, RunArgument
from attnbench.cli.terminal import (
    FAILED,
    IMAGES,
    TABLES,
    USAGE,
    Terminal,
    at_work,
    check_outs,
    explained,
    print_answer,
    print_text,
    write_below,
    write_out,
)
from attnbench.schema.errors import ArgumentError, UsageError

reading = typer.Typer()
_STDOUT = Path("-")
_MACHINE = 48
"""Letters of a machine in a list."""


@reading.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several are also put on one page, side by side.")],
    out: Annotated[Path | None, typer.Option(help="Where the page of several goes. Default: report.html.")] = None,
    opens: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Remake tables, plots and the page of runs from their records alone."""
    if out is None and len(runs) > 1:
        out = Path("report.html")
    if out is not None and out.suffix.lower() not in {".html", ".htm"}:
        raise ArgumentError("out", out, "the page of the runs is one HTML file; its name must end in .html")
    found = [attnbench.read(run) for run in runs]
    together = attnbench.page(*found).encode() if out is not None else b""
    made = []
    for run in found:
        made += run.report()
        print_text(run.summary)
    print(*made, sep="\n")
    if out is not None:
        write_out(out, together)
    page = out or runs[0] / "index.html"
    if opens and not webbrowser.open(page.resolve().as_uri()):
        # no error: the file is there
        print(f"no browser could be started; open {page}", file=sys.stderr)


@reading.command()
def verify(run: RunArgument) -> None:
    """Verify that a run is whole, of the suite it names, and agrees with itself: exit 0 it is, 1 it is not, 2 bad input."""
    with explained(failed=USAGE):
        found = attnbench.verify(run)
        for finding in found:
            mark = {True: "ok  ", False: "BAD ", None: "    "}[finding.ok]
            print(f"{mark} {finding.name:<12} {finding.text}")
        if any(finding.ok is False for finding in found):
            sys.exit(FAILED)


@reading.command()
def cite(
    run: RunArgument,
    out: Annotated[list[Path], typer.Option("--out", help="Write .bib or .md. May be repeated.")] = [],  # noqa: B006
) -> None:
    """Write what a paper cites and has to tell of a run: BibTeX, and a list that is filled in from the records."""
    check_outs(out, ("bib", "md"))
    done = attnbench.cite(run)
    print_answer(str(done), out, done.form)


@reading.command()
def advise(  # noqa: PLR0913, PLR0917 - one parameter an option
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of them. Default: results.")] = [],  # noqa: B006
    n: Annotated[str, typer.Option("--N", help="Tokens, as 16384 or 2^14.")] = ...,  # type: ignore[assignment]
    workload: Annotated[str | None, typer.Option(help="forward, forward_backward, decode, … Default: forward.")] = None,
    decode: Annotated[bool, typer.Option("--decode", help="The same as --workload decode.")] = False,
    causal: Annotated[bool, typer.Option("--causal/--non-causal", help="Default: causal.")] = True,
    memory: Annotated[str | None, typer.Option(help="What one sample may need, as 2GiB.")] = None,
    min: Annotated[
        list[str], typer.Option(help="A quality, as recall=0.9 (accuracy on that task) or mass_recall=0.8. May be repeated.")
    ] = [],  # noqa: B006
    max: Annotated[list[str], typer.Option(help="As output_error=0.1. May be repeated.")] = [],  # noqa: B006
    by: Annotated[str, typer.Option(help="Rank by time, memory or state.")] = "time",
    out: Annotated[list[Path], typer.Option("--out", help="Write .md, .tex or .csv. May be repeated.")] = [],  # noqa: B006
) -> None:
    """Say which methods qualify for a length, a memory and a quality, by what was recorded; never beyond what was measured."""
    check_outs(out, TABLES)
    if decode and workload:
        raise ArgumentError("workload", workload, "--decode is --workload decode; give one of them")
    given = "decode" if decode else workload or "forward"
    done = attnbench.advise(
        *runs, N=n, workload=given, causal=causal, memory=memory, min=min, max=max, by=by, reporter=Terminal()
    )
    print_answer(str(done), out, done.form)


@reading.command()
def plot(  # noqa: PLR0913, PLR0917 - one parameter an option
    run: RunArgument,
    kind: Annotated[
        list[str],
        typer.Option(
            help="scaling, memory, pareto, roofline, crossover, decode, ratio, fidelity, numerics, curves, drawings, "
            "memory_against_time, or any figure of docs/data.md; default: all that are named here. May be repeated."
        ),
    ] = [],  # noqa: B006 - typer copies it
    style: Annotated[str, typer.Option(help="paper, talk or web.")] = "paper",
    width: Annotated[
        str | None,
        typer.Option(help="As 5.5in, or single, double, neurips, icml, acl, cvpr, icml-double, … Default: double."),
    ] = None,
    height: Annotated[str | None, typer.Option(help="As 3in. Default: as high as the panels need.")] = None,
    format: Annotated[
        str | None, typer.Option(help="Of pdf, svg, png and pgf, as pdf,pgf. Default: pdf,svg,png; for the web svg,png.")
    ] = None,
    workload: Annotated[list[str], typer.Option(help="Only this one, as forward. May be repeated.")] = [],  # noqa: B006
    methods: Annotated[
        list[str], typer.Option(help="Only these, in this order, as softmax.sdpa,linear.chunked. May be repeated.")
    ] = [],  # noqa: B006
    label: Annotated[
        list[str], typer.Option(help='What figures call a method, as softmax.sdpa="FlashAttention". May be repeated.')
    ] = [],  # noqa: B006
    failures: Annotated[
        bool, typer.Option("--failures/--no-failures", help="Whether cells without a number are shown.")
    ] = True,
    out: Annotated[Path | None, typer.Option(help="A folder. Default: figures/ in the run's own.")] = None,
) -> None:
    """Draw figures of a run for a paper, a talk or a page, each with a caption as text and for LaTeX."""
    labels = {}
    for text in label:
        # parameters hold = too: the name begins after the method, or after its brackets
        found = re.fullmatch(r"([^=(]+(?:\([^)]*\))?)=(.*\S.*)", text)
        if found is None:
            raise ArgumentError("label", text, 'write METHOD=NAME, as softmax.sdpa="FlashAttention"')
        labels[found[1].strip()] = found[2].strip()
    made = attnbench.read(run).draw(
        kind,
        style=style,
        width=width,
        height=height,
        format=format,
        workload=workload,
        method=methods,
        labels=labels,
        failures=failures,
        reporter=Terminal(),
    )
    write_below(out or run, made if out else {f"figures/{name}": content for name, content in made.items()})


@reading.command()
def show(  # noqa: PLR0913, PLR0917 - one parameter an option
    method: MethodArgument,
    n: Annotated[int, typer.Option("--N", min=1, help="Tokens; at most 512.")] = 64,
    heads: Annotated[int, typer.Option(min=1, help="Heads; at most 16.")] = 4,
    width: Annotated[int, typer.Option(min=1, max=4096, help="Width of queries, keys and values.")] = 16,
    param: Params = [],  # noqa: B006
    causal: Annotated[bool | None, typer.Option("--causal/--non-causal", help="Default: causal where the method can.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of queries, keys and the method's own choices.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A .png or .svg; default: METHOD.png.")] = None,
) -> None:
    """Draw which key each query sees, and how much of it: a panel per head, queries down, keys across."""
    from attnbench.session.asked import parameters

    file = out or Path(f"{method.replace(':', '.')}.png")
    form = file.suffix.removeprefix(".").lower()
    if form not in {"png", "svg"}:
        raise ArgumentError("out", file, "a picture is .png or .svg")
    picture = attnbench.show(method, N=n, heads=heads, width=width, param=parameters(param), causal=causal, seed=seed)
    write_out(file, picture.image(form))


@reading.command()
def site(
    results: Annotated[Path, typer.Argument(help="A folder with run folders at any depth, as results.")],
    out: Annotated[Path, typer.Argument(help="The folder that the site becomes; replaced as a whole once it is made.")],
    records: Annotated[bool, typer.Option("--records", help="Publish the raw records too.")] = False,
) -> None:
    """Make a folder of pages from all runs below a folder: an index, a page each, trends; for any static host."""
    with at_work() as terminal:
        built = attnbench.site(results, out, records=records, reporter=terminal)
    print(built.extent)
    print(out / "index.html")


@reading.command()
def published(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of them, as results/reference.")] = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="A .md file. Default: stdout.")] = None,
) -> None:
    """List the figures that others printed, with what runs came to beside each: reproduced, not reproduced, cannot tell."""
    check_outs([out] if out else [], ("md",))
    text = attnbench.published(*runs, reporter=Terminal())
    if out is None:
        print(text, end="")
    else:
        write_out(out, text.encode())


@reading.command()
def record(  # noqa: PLR0913, PLR0917 - one parameter an option
    run: Annotated[Path, typer.Argument(help="A run that trained models, or the folder of a model of transformers.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .safetensors file.")],
    method: Annotated[str | None, typer.Option(help="Whose model of a run, as tables show it.")] = None,
    task: Annotated[str | None, typer.Option(help="Of several trainings, that of this task.")] = None,
    N: Annotated[int | None, typer.Option("--N", help="Of several trainings, that of this length; tokens to read.")] = None,
    replicate: Annotated[int, typer.Option(min=0, help="Of the seeds, which.")] = 0,
    sequences: Annotated[int, typer.Option(min=1, max=2**16, help="Held-out sequences that the model reads.")] = 8,
    text: Annotated[str, typer.Option(help="What a model of transformers reads; by default Python's own sources.")] = "",
) -> None:
    """Record queries, keys and values of a trained model, for suites that say inputs: recorded."""
    shapes = attnbench.record(run, out=out, method=method, task=task, N=N, replicate=replicate, sequences=sequences, text=text)
    print(f"{out}: {', '.join(f'{name} {list(shape)}' for name, shape in shapes.items())}")


@reading.command()
def export(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several for asv, otava and parquet.")],
    to: Annotated[
        str,
        typer.Option(
            help="pytest-benchmark, asv, otava, pyperf, github-action-benchmark, github-action-benchmark-bigger, bencher, "
            "parquet or parquet-records."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="A file, or for asv and otava a folder; - for stdout. Default: in the run's folder."),
    ] = None,
) -> None:
    """Write runs in the formats of other tools."""
    from attnbench.library.reading import format_of

    form = format_of(to)
    if len(runs) > 1 and form.many and out is None:
        raise UsageError("several runs: say by --out where the export goes")
    if out == _STDOUT and (form.folder or not form.text):
        raise ArgumentError("out", "-", f"{to} is {'a folder' if form.folder else 'no text'}; name a path")
    if not form.folder and out is not None and out.is_dir():
        raise ArgumentError("out", out, f"is a directory; name a file, as {out / form.file}")
    made = attnbench.export(*runs, to=to, out=out)
    if out is None:
        place = PurePosixPath(form.file)
        write_below(runs[0], {str(place / name if form.folder else place): file for name, file in made.files.items()})
    elif form.folder:
        write_below(out, made.files)
    elif out == _STDOUT:
        sys.stdout.buffer.write(b"".join(made.files.values()))
    else:
        write_out(out, next(iter(made.files.values())))
    for note in made.notes:
        Terminal().say(note)


history = typer.Typer(help="Keep run folders as a history: add runs, list them.", no_args_is_help=True)
reading.add_typer(history, name="history")


@history.command("add")
def history_add(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, as results/quick/20260102-030405-abcdef.")],
    to: Annotated[str, typer.Option(metavar="HISTORY", help="A folder or a URL, as s3://bucket/runs; made if there is none.")],
) -> None:
    """Copy whole runs into a history; nothing there is ever overwritten."""
    print(*attnbench.add_to_history(*runs, to=to), sep="\n")


@history.command("list")
def history_list(history: HistoryArgument) -> None:
    """List the runs of a history: suite, date, machine, commit, cells; those that cannot be read with the reason."""
    from tabulate import tabulate

    from attnbench.report.text.names import one_line, shorten

    rows = []
    for entry in attnbench.history(history, reporter=Terminal()):
        if entry.problem:
            rows.append([one_line(entry.place), "", "", "", "", f"cannot be read: {one_line(entry.problem)}"])
            continue
        counts = {"ok": entry.ok, "failed": entry.failed, "not run": entry.unfinished}
        words = [f"{count} {name}" for name, count in counts.items() if count]
        cells = ", ".join([*words, *(["an older commit again"] if entry.base else [])])
        started, machine = entry.started[:16].replace("T", " "), shorten(entry.machine, _MACHINE)
        rows.append([entry.suite, one_line(entry.run), started, machine, one_line(entry.short_commit), cells])
    headers = ("suite", "run", "started (UTC)", "machine", "commit", "cells")
    print(tabulate(rows, headers, tablefmt="simple", disable_numparse=True))


@reading.command()
def trend(  # noqa: PLR0913, PLR0917 - one parameter an option
    history: HistoryArgument,
    suite: Annotated[str | None, typer.Option(help="Only this suite.")] = None,
    method: Annotated[str | None, typer.Option(metavar="GLOB", help="Only these methods, as 'linear.*'.")] = None,
    metric: Annotated[str, typer.Option(help="Any figure of a cell: time, memory, tokens, flops, loss, accuracy, …")] = "time",
    margin: Margin = "5%",
    since: Annotated[str | None, typer.Option(metavar="DATE", help="Only changes from then on, as 2026-01-31 (UTC).")] = None,
    html: Annotated[Path | None, typer.Option(metavar="PAGE", help="Write a page: one file, no network, no script.")] = None,
    png: Annotated[Path | None, typer.Option(metavar="PICTURE", help="Write a picture: .png, .svg or .pdf.")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all series as JSON.")] = None,
    fail_on: Annotated[
        str | None, typer.Option(metavar="regression", help="Exit with 1 where something got worse or was lost, and stayed so.")
    ] = None,
) -> None:
    """Find when cells got slower, faster, were lost or came back in a history, and what else changed then."""
    from attnbench.analyze.compare import Exit
    from attnbench.report.questions.trend.words import console, trend_json

    with explained(failed=USAGE if fail_on else FAILED):
        form = png.suffix.removeprefix(".").lower() if png else ""
        if png is not None and form not in IMAGES:
            raise ArgumentError("png", png, "a picture is .png, .svg or .pdf")
        if fail_on not in {None, "regression"}:
            raise ArgumentError("fail_on", fail_on, "write --fail-on regression")
        trends = attnbench.trend(
            history, suite=suite, method=method, metric=metric, margin=margin, since=since, reporter=Terminal()
        )
        print_text(lambda unicode: console(trends, unicode=unicode))
        if html is not None:
            # jinja2 and matplotlib are imported only where they are needed
            from attnbench.report.questions.trend.page import page

            write_out(html, page(trends).encode(), "html")
        if png is not None:
            from attnbench.report.questions.trend.chart import image

            write_out(png, image(trends, form), "png")
        if json is not None:
            write_out(json, trend_json(trends).encode(), "json")
        if fail_on and trends.regressed:
            sys.exit(Exit.REGRESSION)
