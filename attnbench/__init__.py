"""attnbench: time, memory and quality of efficient attentions, measured honestly and compared.

`run` measures a suite and `read` opens a run that is stored; `plan`, `methods`, `compare` and the others are the commands of
the same names. `build(name, Problem(...), **params)` gives any attention as a torch module. See docs/python.md.
"""

from typing import TYPE_CHECKING

from attnbench.version import __version__

if TYPE_CHECKING:
    from attnbench.library.advise import advise
    from attnbench.library.bundle import bundle
    from attnbench.library.check import check
    from attnbench.library.cite import cite
    from attnbench.library.compare import compare, gate, rerun
    from attnbench.library.crossover import crossover
    from attnbench.library.maxlen import maxlen
    from attnbench.library.measuring import run
    from attnbench.library.merge import merge
    from attnbench.library.plan import methods, plan
    from attnbench.library.reading import add_to_history, export, history, page, published, record, site, trend
    from attnbench.library.runs import Run, read
    from attnbench.library.selfcheck import selfcheck
    from attnbench.library.submit import submit
    from attnbench.library.suites import copy_suite, suites
    from attnbench.library.trace import trace
    from attnbench.library.verify import verify
    from attnbench.library.weights import show
    from attnbench.registry import build
    from attnbench.schema.errors import AttnbenchError, UsageError
    from attnbench.schema.problem import Problem
    from attnbench.session.machine import doctor
    from attnbench.session.reporter import Reporter

_PLACES = {
    "library.compare": "gate rerun",
    "library.measuring": "run",
    "library.plan": "methods",
    "library.reading": "add_to_history export history page published record site trend",
    "library.runs": "Run read",
    "library.suites": "copy_suite",
    "library.weights": "show",
    "registry": "build",
    "schema.errors": "AttnbenchError UsageError",
    "schema.problem": "Problem",
    "session.machine": "doctor",
    "session.reporter": "Reporter",
}
"""Where the names are that have no module of their own in library/."""
# fmt: off
__all__ = [
    "AttnbenchError", "Problem", "Reporter", "Run", "UsageError", "__version__", "add_to_history", "advise", "build", "bundle",
    "check", "cite", "compare", "copy_suite", "crossover", "doctor", "export", "gate", "history", "maxlen", "merge", "methods",
    "page", "plan", "published", "read", "record", "rerun", "run", "selfcheck", "show", "site", "submit", "suites", "trace",
    "trend", "verify",
]
# fmt: on


def __getattr__(name: str) -> object:
    """Import each name at first use, so that `import attnbench` and `attnbench --help` answer at once."""
    if name not in __all__:
        raise AttributeError(f"module 'attnbench' has no attribute {name!r}")
    from importlib import import_module

    place = next((place for place, names in _PLACES.items() if name in names.split()), f"library.{name}")
    return getattr(import_module(f"attnbench.{place}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
