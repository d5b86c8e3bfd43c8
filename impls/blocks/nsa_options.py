"""The parameters of NSA."""

from dataclasses import dataclass

from .parameters import refuse_bad_count

FORCED = 3
"""The first block and the last two are always selected."""


@dataclass(frozen=True)
class NsaOptions:
    """`block` tokens are compressed to one, and are what is selected; `selected` counts the own block too.

    Raises ValueError on a bad count.
    """

    block: int = 64
    selected: int = 16
    window: int = 512

    def __post_init__(self) -> None:
        refuse_bad_count(self.block, "block")
        refuse_bad_count(self.selected, "selected", FORCED)
        refuse_bad_count(self.window, "window")
