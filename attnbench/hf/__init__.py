"""Any attention here inside a model of transformers.

`register` gives methods of (q, k, v) a name that every model takes; `swap` puts methods with gates, states or weights of their
own into chosen layers, `unswap` takes them out again, and `load` reads a swapped model that was saved. See docs/models.md.
"""

from attnbench.registry import MissingPackageError

try:
    import transformers  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingPackageError("attnbench.hf needs transformers: pip install 'attnbench[hf]'") from error

from attnbench.hf.linearizing import Budget, linearize, perplexity
from attnbench.hf.recording import record
from attnbench.hf.refusals import CannotError
from attnbench.hf.registering import register
from attnbench.hf.saving import load
from attnbench.hf.swapping import swap, unswap

__all__ = ["Budget", "CannotError", "linearize", "load", "perplexity", "record", "register", "swap", "unswap"]
