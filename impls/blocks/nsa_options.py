"""The parameters of NSA."""

from dataclasses import dataclass

from .parameters import refuse_bad_count

FORCED = 3
"""Number of blocks that every query selects: the first and the last two."""


@dataclass(frozen=True)
class NsaOptions:
    """The parameters of NSA: `block` and `window` in tokens, `selected` in blocks, counting the own one."""

    block: int = 64
    selected: int = 16
    window: int = 512

    def __post_init__(self) -> None:
        refuse_bad_count(self.block, "block")
        refuse_bad_count(self.selected, "selected", FORCED)
        refuse_bad_count(self.window, "window")
