"""Record: one line of records.jsonl."""

import json

from pydantic import Field

from attnbench.schema.cell import Batch
from attnbench.schema.errand import Job, main_pass
from attnbench.schema.noun import Noun
from attnbench.schema.outcome import Failed, Measured, Outcome, Status

VERSION = 1
_OURS = f'{{"schema_version":{VERSION},'


class Record(Noun):
    """The outcome of one job, when and where; `seconds` counts the whole process, from start to end."""

    schema_version: int = VERSION
    job: Job
    outcome: Outcome
    environment: str
    host: str = Field(default="", description="the name of the machine")
    device: str = Field(default="", description="the UUID of a GPU; cpu, or the cores that were measured on")
    started: str
    seconds: float | None = None
    note: str = ""

    @property
    def ok(self) -> bool:
        """Say whether there are valid numbers."""
        return isinstance(self.outcome, Measured)

    @property
    def failed(self) -> Failed | None:
        """Return the outcome, if the job failed."""
        return self.outcome if isinstance(self.outcome, Failed) else None

    @property
    def too_large(self) -> bool:
        """Say whether the batch found by a search, which had fitted for two calls, ran out of memory when first measured."""
        job = self.job
        first = job.cell.batch is Batch.LARGEST and job.replicate == 0 and job.phase is main_pass(job.cell)
        full = self.failed is not None and self.failed.status in {Status.OOM_DEVICE, Status.OOM_HOST}
        # a record without a batch is the note that not even one row fits
        return first and full and job.B is not None

    @property
    def settles(self) -> bool:
        """Say whether the cell is its device's from here on: it was started there, or ruled out; not merely interrupted."""
        return self.seconds is not None or self.failed is None or self.failed.status is not Status.INTERRUPTED

    def line(self) -> str:
        """Return one line of strict JSON. Raises ValueError for NaN and infinities, which are no measurements."""
        return json.dumps(self.model_dump(mode="json"), allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def parse(line: str) -> Record:
    """Read one line of any known version. Raises ValueError, which says what is wrong with the line."""
    # nearly all lines begin as `Record.line` writes them; for those, the JSON is parsed once instead of twice
    if line.startswith(_OURS):
        return Record.model_validate_json(line)
    try:
        data = json.loads(line)
    except RecursionError:
        raise ValueError("not a record: nested too deeply") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if type(version) is not int:
        raise ValueError("not a record: no schema_version")
    if version > VERSION:
        raise ValueError(f"written by a newer attnbench (schema {version}, this one reads up to {VERSION})")
    if version < VERSION:
        raise ValueError(f"schema {version} was never written by any attnbench")
    return Record.model_validate_json(line)
