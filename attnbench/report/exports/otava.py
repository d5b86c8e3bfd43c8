"""Apache Otava: CSV with a row for each run, and otava.yaml with a test for each figure of each cell.

Otava reads no gaps. So series that have values in the same runs share a file; where none ever failed, there is one.
"""

import io
from collections.abc import Sequence

from ruamel.yaml import YAML

from attnbench.analyze.sections import grouped
from attnbench.report.exports.cell_names import block_name
from attnbench.report.exports.exchange import (
    Export,
    ExportError,
    Source,
    entries,
    notes,
    one_machine,
    refuse_empty,
    started,
    without_numbers,
)
from attnbench.report.text.table import csv_text, rows_csv

FOLDER, CONFIG = "otava", "otava.yaml"
_FAILED = "without-numbers.csv"
_ATTRIBUTES = ("run", "commit", "environment")


def make(sources: Sequence[Source]) -> Export:
    """Write a history of runs, by rising date. Raise ExportError where no run has a number."""
    # the older side of a comparison was measured beside the newer one, which is the point of the series
    newer = {source.findings.run.interleaved for source in sources if not source.findings.run.is_base}
    older = [run for source in sources if (run := source.findings.run).is_base and run.interleaved in newer]
    points = [source for source in sources if source.findings.run not in older]
    history = sorted(points, key=lambda source: started(source.findings.run))
    if len(machines := dict.fromkeys(source.findings.run.machine for source in history)) > 1:
        raise ExportError(
            f"a series of Otava is of one machine, and these runs are of {'; '.join(machines)}; name those of one"
        )
    rows = [{f"{entry.figure}/{entry.name}": entry for entry in entries(source.findings)} for source in history]
    known = {name: entry for row in rows for name, entry in row.items()}
    refuse_empty(list(known.values()), history[-1])
    shared = grouped((tuple(number for number, row in enumerate(rows) if name in row), name) for name in known)
    files: dict[str, bytes] = {}
    tests: dict[str, object] = {}
    fullest = sorted(shared.items(), key=lambda each: -len(each[0]))
    for place, (present, names) in enumerate(fullest, 1):
        file = f"history{f'-{place}' if place > 1 else ''}.csv"
        lines: list[list[object]] = [["time", *_ATTRIBUTES, *names]]
        for i in present:
            run = history[i].findings.run
            about = (run.id, str(run.git.get("commit") or "unknown"), run.environment_digest)
            lines.append([started(run).isoformat(), *about, *(rows[i][name].value for name in names)])
        files[file] = csv_text(lines).encode()
        for name in names:
            entry = known[name]
            direction = 1 if entry.quantity.more_is_better else -1
            tests[name] = {
                "type": "csv",
                "file": file,
                "time_column": "time",
                "attributes": list(_ATTRIBUTES),
                "metrics": {entry.figure: {"column": name, "direction": direction, "scale": 1}},
                "csv_options": {"delimiter": ",", "quote_char": '"'},
            }
    groups = grouped((f"{known[name].figure}/{block_name(known[name].summary.cell)}", name) for name in tests)
    yaml, config = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style, yaml.width, yaml.allow_unicode = False, 4096, False
    yaml.dump({"tests": tests, "test_groups": groups}, config)
    files[CONFIG] = config.getvalue().encode()
    failed = [{"run": s.findings.run.id, **each} for s in history for each in without_numbers(s.findings)]
    if failed:
        files[_FAILED] = rows_csv(failed).encode()
    left_out = [f"run {run.id}: left out, for it is the older side of a comparison" for run in older]
    said = ((s.findings.run, (*notes(s.findings), *one_machine(s.findings.run))) for s in history)
    return Export(files, (*left_out, *(f"run {run.id}: {note}" for run, each in said for note in each)))
