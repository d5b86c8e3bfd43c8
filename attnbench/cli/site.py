"""`attnbench site`: the runs below a folder as a folder of pages, for any static host."""

import sys
from pathlib import Path

from attnbench.cli.collect import exits_when_interrupted
from attnbench.cli.errors import UsageError
from attnbench.cli.maxlen import limits_of
from attnbench.report.site.build import Built, Options, build
from attnbench.report.site.folder import SiteError
from attnbench.report.text.names import ascii_only

_MANY, _EVERY = 10, 5


def make_site(results: Path, out: Path, *, records: bool) -> None:
    """Write it and say what it holds, and on stderr what it does not; raises UsageError, StoreError.

    Exits with 130 or 143 when interrupted; then what was there before is as it was.
    """
    with exits_when_interrupted():
        built = _built(Options(results, out, limits_of, records))
    for each in built.left_out:
        print(_shown(f"left out: {each.place}: {each.why}"), file=sys.stderr)
    print(built.extent)
    print(out / "index.html")


def _built(options: Options) -> Built:
    try:
        return build(options, _say)
    except SiteError as error:
        raise UsageError(str(error)) from None


def _say(done: int, of: int) -> None:
    """On stderr, and only where it may take a while."""
    if of < _MANY:
        return
    if sys.stderr.isatty() and (done % _EVERY == 0 or done == of):
        print(f"\r{done:,} of {of:,} runs", end="\n" if done == of else "", file=sys.stderr, flush=True)
    elif done == 0:
        print(f"reading {of:,} runs", file=sys.stderr)


def _shown(text: str) -> str:
    return text if "utf" in (sys.stderr.encoding or "ascii").lower() else ascii_only(text)
