"""The doors behind which numbers are compared; as in `app`, what a command needs is imported when it is called."""

from pathlib import Path
from typing import Annotated

import typer

from attnbench.cli.errors import FAILED, USAGE, explained
from attnbench.cli.options import MOST_REPLICATES, AcrossMachines, Device, HistoryArgument, Impls, Margin, NoWait, Outs

judging = typer.Typer()


@judging.command()
def selfcheck(  # noqa: PLR0913, PLR0917 - one parameter an option
    method: Annotated[str | None, typer.Option(help="Compared with itself. Default: softmax.sdpa.")] = None,
    n: Annotated[int | None, typer.Option("--N", min=1, max=2**24, help="Tokens. Default: 512.")] = None,
    causal: Annotated[bool | None, typer.Option("--causal", help="For methods that are causal only.")] = None,
    verdicts: Annotated[int | None, typer.Option(min=1, max=10**5, help="Default: 200.")] = None,
    replicates: Annotated[int | None, typer.Option(min=2, max=1000, help="Processes a side. Default: 10.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.01, help="Of each process. Default: 0.2.")] = None,
    margin: Annotated[str | None, typer.Option(help="The smallest effect that matters. Default: 5%.")] = None,
    inject: Annotated[
        str | None, typer.Option(help="Make one side really slower by so much, as 10%, and see whether it is found.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:1. Default: auto.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the run folder is made. Default: results.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="An interrupted folder: measure what it lacks; a whole one: report again.")
    ] = None,
    no_wait: NoWait = False,
) -> None:
    """One method under two names: false alarms, and the smallest slow-down that is found on this machine. Half an hour."""
    from attnbench.cli.selfcheck import selfcheck as check

    given: dict[str, object] = {"method": method, "N": n, "causal": causal, "verdicts": verdicts, "replicates": replicates}
    given |= {"seconds": seconds, "inject": inject, "device": device, "out": out}
    check({name: value for name, value in given.items() if value is not None}, margin, resume, wait=not no_wait)


@judging.command()
def compare(  # noqa: PLR0913, PLR0917 - one parameter an option
    runs: Annotated[
        list[Path], typer.Argument(help="Two run folders, the old one first; or one: its methods are compared.")
    ] = [],  # noqa: B006
    baseline: Annotated[str | None, typer.Option(help="Of one run: the method that the others are compared with.")] = None,
    live: Annotated[str | None, typer.Option(metavar="GIT_REF", help="Measure this commit and the present in turns.")] = None,
    suite: Annotated[str | None, typer.Option(help="With --live: what to measure.")] = None,
    impl: Impls = [],  # noqa: B006
    device: Device = None,
    margin: Margin = "5%",
    replicates: Annotated[int, typer.Option(min=2, max=MOST_REPLICATES, help="With --live: a side, at most.")] = 20,
    results: Annotated[Path, typer.Option(help="With --live: where run folders are made.")] = Path("results"),
    out: Outs = [],  # noqa: B006
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit as `attnbench gate` does.")] = False,
    across_machines: AcrossMachines = False,
    no_wait: NoWait = False,
) -> None:
    """Judge two runs, or the methods of one: FASTER, SLOWER, SAME or UNCLEAR, with intervals; lost cells; memory."""
    from attnbench.cli.amounts import share
    from attnbench.cli.compare import Options
    from attnbench.cli.compare import compare as judge
    from attnbench.cli.live import Live

    reach = share(margin, "--margin")
    terms = (tuple(impl), device, reach, replicates, results)
    measured = Live(live, suite or "", *terms, wait=not no_wait) if live or suite else None
    with explained(failed=USAGE if exit_code else FAILED):
        judge(Options(tuple(runs), baseline, reach, tuple(out), exit_code, across_machines, measured))


@judging.command()
def gate(  # noqa: PLR0913, PLR0917 - one parameter an option
    suite: Annotated[str | None, typer.Argument(help="A suite file, or the name of one that ships.")] = None,
    base: Annotated[str | None, typer.Option(metavar="GIT_REF", help="The commit to measure against.")] = None,
    stored: Annotated[
        tuple[Path, Path] | None, typer.Option(metavar="BASE_RUN NEW_RUN", help="Judge two runs; measure nothing.")
    ] = None,
    impl: Impls = [],  # noqa: B006
    device: Device = None,
    margin: Margin = "5%",
    max_replicates: Annotated[
        int, typer.Option(min=2, max=MOST_REPLICATES, help="A side, at most; looked at after 5, 10, 20, ...")
    ] = 20,
    results: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("results"),
    across_machines: AcrossMachines = False,
    json: Annotated[Path | None, typer.Option(help="Write the judgement as JSON.")] = None,
    out: Outs = [],  # noqa: B006
    no_wait: NoWait = False,
) -> None:
    """Whether a change may pass: exit 0 fine, 1 regression, 2 no verdict (usage, machine, disk), 3 unclear, 4 cells lost."""
    from attnbench.cli.amounts import share
    from attnbench.cli.gate import Options
    from attnbench.cli.gate import gate as judge
    from attnbench.cli.live import Live

    reach = share(margin, "--margin")
    terms = (tuple(impl), device, reach, max_replicates, results)
    measured = Live(base, suite or "", *terms, wait=not no_wait) if base or suite else None
    with explained(failed=USAGE):
        judge(Options(measured, stored, reach, across_machines, json, tuple(out)))


@judging.command()
def export(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several for asv, otava and parquet.")],
    to: Annotated[str, typer.Option(help="pytest-benchmark, asv, otava, pyperf, github-action-benchmark, bencher or parquet.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="A file, or for asv and otava a folder; - for stdout. Default: in the run's folder.", show_default=False
        ),
    ] = None,
) -> None:
    """Write runs in the formats of other tools."""
    from attnbench.cli.export import Options
    from attnbench.cli.export import export as write

    write(Options(tuple(runs), to, out))


@judging.command()
def crossover(  # noqa: PLR0913, PLR0917 - one parameter an option
    source: Annotated[str, typer.Argument(help="A run folder; with --measure a suite.")],
    of: Annotated[str | None, typer.Option(metavar="METHOD", help="Which method wins; default: each of the run.")] = None,
    over: Annotated[
        str | None, typer.Option(metavar="METHOD", help="Against which; default: the strongest exact softmax.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="time, memory, state, output_error, mass_recall, loss, accuracy, bits, or a counter of the run.")
    ] = "time",
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the two on the suite's lengths, then on lengths in between.")
    ] = False,
    resolution: Annotated[str, typer.Option(help="How well N is to be known, each way: 10% or 0.1.")] = "10%",
    max_points: Annotated[int, typer.Option(min=0, help="Lengths that are added to a section, at most.")] = 6,
    minutes: Annotated[float | None, typer.Option(min=0, help="After so many no length is added.")] = None,
    replicates: Annotated[
        int, typer.Option(min=1, max=MOST_REPLICATES, help="With --measure: processes per cell; 5 and more give intervals.")
    ] = 5,
    impl: Impls = [],  # noqa: B006
    device: Device = None,
    results: Annotated[Path, typer.Option(help="With --measure: where run folders are made.")] = Path("results"),
    fresh: Annotated[bool, typer.Option("--fresh", help="A new interpreter per replicate, not a fork.")] = False,
    out: Outs = [],  # noqa: B006
    no_wait: NoWait = False,
) -> None:
    """From which length on is one method ahead of another? With intervals, of a stored run or measured for it."""
    from attnbench.cli.amounts import share
    from attnbench.cli.crossover import Measuring, Options
    from attnbench.cli.crossover import crossover as find

    near = share(resolution, "--resolution")
    how = (near, max_points, minutes, replicates, tuple(impl), device, results, fresh, not no_wait)
    live = Measuring(*how) if measure else None
    find(Options(source, of, over, metric, tuple(out), live))


@judging.command()
def maxlen(  # noqa: PLR0913, PLR0917 - one parameter an option
    what: Annotated[list[str], typer.Argument(help="A suite, or methods; or the folder of an earlier search.")],
    method: Annotated[list[str], typer.Option("--method", help="Of the suite only this one. May be repeated.")] = [],  # noqa: B006
    memory: Annotated[
        str | None, typer.Option(help="What may be used, as 0.7 of what is free, or 8GiB; instead of the suite's own.")
    ] = None,
    limit: Annotated[str, typer.Option(help="The largest N that is tried, as 65536 or 2^16.")] = "2^22",
    batch: Annotated[bool, typer.Option("--batch", help="The largest batch at each length of the suite instead.")] = False,
    impl: Impls = [],  # noqa: B006
    device: Device = None,
    results: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("results"),
    fresh: Annotated[bool, typer.Option("--fresh", help="A new interpreter per trial, not a fork.")] = False,
    out: Annotated[list[Path], typer.Option("--out", help="Write .md, .tex or .csv. May be repeated.")] = [],  # noqa: B006
    no_wait: NoWait = False,
) -> None:
    """Search for the longest sequence, or the largest batch, that fits into memory and time; each trial a process."""
    from attnbench.cli.maxlen import Options
    from attnbench.cli.maxlen import maxlen as search

    how = (limit, batch, tuple(impl), device, results, tuple(out), fresh, not no_wait)
    search(Options(tuple(what), tuple(method), memory, *how))


history = typer.Typer(
    help="Keep run folders as a history: add runs, list them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
judging.add_typer(history, name="history")


@history.command("add")
def history_add(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, as results/quick/20260102-030405-abcdef.")],
    to: Annotated[str, typer.Option(metavar="HISTORY", help="A folder or a URL, as s3://bucket/runs; made if there is none.")],
) -> None:
    """Copy whole runs into a history; nothing there is ever overwritten."""
    from attnbench.cli.history import add

    add(runs, to)


@history.command("list")
def history_list(history: HistoryArgument) -> None:
    """List the runs of a history: suite, date, machine, commit, cells; those that cannot be read with the reason."""
    from attnbench.cli.history import show

    show(history)


@judging.command()
def trend(  # noqa: PLR0913, PLR0917 - one parameter an option
    history: HistoryArgument,
    suite: Annotated[str | None, typer.Option(help="Only this suite.")] = None,
    method: Annotated[str | None, typer.Option(metavar="GLOB", help="Only these methods, as 'linear.*'.")] = None,
    metric: Annotated[str, typer.Option(help="time or memory.")] = "time",
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
    from attnbench.cli.amounts import share
    from attnbench.cli.trend import Options, show_trend

    reach = share(margin, "--margin")
    with explained(failed=USAGE if fail_on else FAILED):
        show_trend(Options(history, suite, method, metric, reach, since, html, png, json, fail_on))
