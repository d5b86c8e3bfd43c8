"""What one session of pytest remembers."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from attnbench.schema.outcome import Outcome


@dataclass
class Session:
    """Checks are made once; whatever was not timed is told with its reason."""

    checks: "dict[tuple[object, str], Outcome]" = field(default_factory=dict)
    """By the method and the key of the small cell that it was checked on."""
    left_out: list[dict[str, str]] = field(default_factory=list)


SESSION = pytest.StashKey[Session]()
