"""The executor that only checks: every method of a run against its own definition, and nothing is timed."""

from collections.abc import Iterator
from dataclasses import dataclass

from attnbench.executors.local import LocalExecutor
from attnbench.schema.record import Record


@dataclass
class CheckExecutor(LocalExecutor):
    """The checks that a run would make before it times each cell; of one kind of cell no more once one has failed."""

    def run(self) -> Iterator[Record]:
        """Records as they come."""
        with self.round():
            for cell in self.run_info.cells:
                yield from self._checks(cell)
