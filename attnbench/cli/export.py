"""`attnbench export`: runs in the formats of other tools."""

import os
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from attnbench.cli.errors import UsageError
from attnbench.cli.outs import write_below, write_out
from attnbench.report.exports.exchange import Export, ExportError, Place, Source
from attnbench.report.exports.formats import FORMATS, Format
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line
from attnbench.store.files import open_to_read
from attnbench.store.run_folder import RunFolder

_STDOUT = Path("-")


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    runs: tuple[Path, ...]
    to: str
    out: Path | None


def export(options: Options) -> None:
    """Write, say what on stdout, and on stderr what has no place in the format; raises UsageError, StoreError."""
    form = _format(options.to)
    _check(options, form)
    sources = [_source(path, form) for path in options.runs]
    _refuse_doubles(options.runs, sources)
    try:
        made = form.make(sources)
        made = form.settle(made, _place(options.out or options.runs[0] / form.file, made)) if form.settle else made
    except ExportError as error:
        raise UsageError(f"--to {options.to}: {error}") from None
    _write(made, form, options)
    for note in made.notes:
        print(one_line(note), file=sys.stderr)


def _format(name: str) -> Format:
    if name not in FORMATS:
        meant = get_close_matches(name, FORMATS, n=1)
        hint = f"did you mean {meant[0]!r}? " if meant else ""
        raise UsageError(f"--to {name}: no such format; {hint}there are: {', '.join(FORMATS)}")
    return FORMATS[name]


def _check(options: Options, form: Format) -> None:
    """Before anything is read."""
    if len(options.runs) > 1 and not form.many:
        several = ", ".join(name for name, each in FORMATS.items() if each.many)
        raise UsageError(f"--to {options.to} holds one run, and {len(options.runs)} are named; several can be in: {several}")
    if len(options.runs) > 1 and options.out is None:
        raise UsageError("several runs: say by --out where the export goes")
    if options.out == _STDOUT and (form.folder or not form.text):
        raise UsageError(f"--out -: {options.to} is {'a folder' if form.folder else 'no text'}; name a path")
    if not form.folder and options.out is not None and options.out.is_dir():
        raise UsageError(f"--out {options.out}: is a directory; name a file, as {options.out / form.file}")


def _source(path: Path, form: Format) -> Source:
    folder = RunFolder(path)
    return Source(Findings.of(folder.info(), folder.read()), folder.records() if form.raw else ())


def _refuse_doubles(paths: tuple[Path, ...], sources: list[Source]) -> None:
    known: dict[str, Path] = {}
    for path, source in zip(paths, sources, strict=True):
        identity = source.findings.run.id
        if identity in known:
            raise UsageError(f"{known[identity]} and {path} are one run ({identity})")
        known[identity] = path


def _place(out: Path, made: Export) -> Place:
    return Place({name: content for name in made.files if (content := _content(out / name)) is not None}, _repository(out))


def _content(file: Path) -> bytes | None:
    try:
        with open_to_read(file) as content:
            return content.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"--out: {file}: {error.strerror}") from None


def _repository(out: Path) -> str | None:
    """The way from a folder to the repository that it, or else this process, is in."""
    start = out.resolve()
    for folder in (start, *start.parents, Path.cwd(), *Path.cwd().parents):
        if (folder / ".git").exists():
            return Path(os.path.relpath(folder, start)).as_posix()
    return None


def _write(made: Export, form: Format, options: Options) -> None:
    if options.out == _STDOUT:
        (content,) = made.files.values()
        sys.stdout.write(content.decode())
    elif options.out is None:
        place = PurePosixPath(form.file)
        write_below(options.runs[0], {str(place / name if form.folder else place): file for name, file in made.files.items()})
    elif form.folder:
        write_below(options.out, made.files)
    else:
        (content,) = made.files.values()
        write_out(options.out, content)
