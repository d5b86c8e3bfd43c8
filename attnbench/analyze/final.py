"""Which record of several counts: attempts, resumed runs and interruptions, told apart."""

from collections.abc import Iterable

from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record


def final_records(records: Iterable[Record]) -> dict[int, Record]:
    """By replicate, the record that counts, of the records of one cell and one pass.

    The last attempt counts. An interrupted record is as good as none: it counts only where there is no other.
    """
    found: dict[int, Record] = {}
    for record in records:
        known = found.get(record.job.replicate)
        if known is None or _rank(record) >= _rank(known):
            found[record.job.replicate] = record
    return dict(sorted(found.items()))


def _rank(record: Record) -> tuple[bool, int]:
    outcome = record.outcome
    interrupted = isinstance(outcome, Failed) and outcome.status is Status.INTERRUPTED
    return not interrupted, record.job.attempt
