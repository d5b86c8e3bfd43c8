"""attnbench: time, memory and quality of efficient attentions, measured honestly and compared.

`build(name, Problem(...), **params)` gives any registered attention as a torch module.
"""

from typing import TYPE_CHECKING

from attnbench.version import __version__

if TYPE_CHECKING:
    from attnbench.registry import build
    from attnbench.schema.problem import Problem

__all__ = ["Problem", "__version__", "build"]


def __getattr__(name: str) -> object:
    """Import `build` and `Problem` at first use, so that `attnbench --help` answers at once."""
    if name == "build":
        from attnbench.registry import build

        return build
    if name == "Problem":
        from attnbench.schema.problem import Problem

        return Problem
    raise AttributeError(f"module 'attnbench' has no attribute {name!r}")
