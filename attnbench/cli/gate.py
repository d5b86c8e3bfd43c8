"""`attnbench gate`: whether a change may pass, as an exit code, a job summary and JSON."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from attnbench.analyze.gate import Exit, exit_of
from attnbench.analyze.verdict import LEVEL
from attnbench.cli.collect import exits_when_interrupted
from attnbench.cli.compare import FORMS, form_of, read_run, refuse_unlike, show
from attnbench.cli.errors import UsageError
from attnbench.cli.live import Live, measure_live
from attnbench.cli.outs import check_outs, write_out, write_outs
from attnbench.report.questions.comparison.job_summary import job_summary
from attnbench.report.questions.comparison.json import judgement_json
from attnbench.report.questions.comparison.judgement import Judgement
from attnbench.report.questions.comparison.judging import judge_runs
from attnbench.report.text.numbers import percent
from attnbench.store import noise_floor

_WORDS = {
    Exit.FINE: "nothing became slower beyond the margin",
    Exit.REGRESSION: "slower, or of more memory, beyond the margin",
    Exit.UNCLEAR: "not clear: the noise is larger than what the replicates can resolve",
    Exit.LOST: "cells that used to give numbers are lost",
}


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    live: Live | None
    stored: tuple[Path, Path] | None
    margin: float
    across_machines: bool
    json: Path | None
    outs: tuple[Path, ...]


def gate(options: Options) -> None:
    """Judge and exit: 0 fine, 1 regression, 3 unclear, 4 cells lost; what raises is for the caller, who exits with 2."""
    check_outs(options.outs, FORMS)
    with exits_when_interrupted():
        judgement = _judgement(options)
    code = exit_of(judgement.comparisons)
    headline = f"{code.name}: {_WORDS[code]} of {percent(options.margin)}" if code in {0, 1} else f"{code.name}: {_WORDS[code]}"
    show(judgement)
    print(f"\n{headline}")
    _leave(options, judgement, code, headline)
    sys.exit(code)


def _judgement(options: Options) -> Judgement:
    if (options.stored is None) == (options.live is None):
        raise UsageError("name a suite and --base GIT_REF, which are measured in turns; or --stored BASE_RUN NEW_RUN")
    if options.stored is not None:
        old, new = map(read_run, options.stored)
        refuse_unlike(old[0], new[0], options.across_machines)
        _refuse_finer(options.margin, new[0].environment_digest, min(old[0].suite.replicates, new[0].suite.replicates))
        return judge_runs(old, new, options.margin, LEVEL)
    assert options.live is not None  # one of the two, by the check above
    return measure_live(options.live, _refuse_finer)


def _refuse_finer(margin: float, environment: str, replicates: int) -> None:
    """A margin that this machine cannot resolve would never be clear, or clear by luck; raises UsageError."""
    known = noise_floor.recall(environment)
    least = known.at(replicates) if known else None
    if known is not None and least is not None and margin < least:
        raise UsageError(
            f"--margin {percent(margin)}: this machine tells {percent(least)} from chance with {replicates} replicates "
            f"(attnbench selfcheck, run {known.run}), and nothing finer; use a larger margin or more replicates"
        )
    if least is None:
        print("the smallest effect that this machine can tell from chance is not known: attnbench selfcheck", file=sys.stderr)


def _leave(options: Options, judgement: Judgement, code: Exit, headline: str) -> None:
    """What other programs read."""
    write_outs(options.outs, lambda form: form_of(judgement, form))
    if options.json is not None:
        write_out(options.json, judgement_json(judgement, code).encode(), "--json")
    if page := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with Path(page).open("a", encoding="utf-8") as summary:
                summary.write(job_summary(judgement, headline))
        except OSError as error:
            raise UsageError(f"GITHUB_STEP_SUMMARY {page}: {error.strerror}") from None
