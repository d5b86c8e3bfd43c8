"""An attention that takes its time over what it is asked."""

import time

from plain import Plain

from attnbench.api import Cell


class SlowToTell(Plain):
    """Thinks about each cell for a quarter of a second."""

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        time.sleep(0.25)
        return None
