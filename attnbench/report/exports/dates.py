"""When a run or a record was started."""

from datetime import UTC, datetime

from attnbench.report.exports.exchange import ExportError
from attnbench.schema.run import RunInfo


def moment(text: str) -> datetime | None:
    """In UTC; None of what is no date."""
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)


def started(run: RunInfo) -> datetime:
    """A history needs to know; raises ExportError."""
    read = moment(run.started)
    if read is None:
        raise ExportError(f"run {run.id}: run.json: started: {run.started!r} is no date; write it as 2026-01-02T03:04:05+00:00")
    return read
