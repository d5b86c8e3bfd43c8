"""`attnbench methods`: what is installed, asked of each method in a process of its own."""

import textwrap

from attnbench import registry
from attnbench.cli.errors import UsageError
from attnbench.cli.select import address
from attnbench.schema.errand import Description, Inquiry
from attnbench.schema.outcome import Failed
from attnbench.store import answers
from attnbench.worker.isolate import Isolation

_TIMEOUT = 30.0
_INDENT = " " * 4


def show_methods(impls: tuple[str, ...]) -> None:
    """One paragraph a method: those that cannot even be asked say why, and cost the others nothing.

    Raises UsageError, before anything is listed, where what the command line adds is not there or no attention.
    """
    with Isolation() as worker:
        own = {name: ask(name, worker) for name in map(address, impls)}
        unknown = {name: a.reason for name, a in own.items() if isinstance(a, Failed) and a.facts.get("unknown")}
        if unknown:
            raise UsageError("\n".join(f"--impl {name}: {reason}" for name, reason in unknown.items()))
        for name in registry.catalogue():
            print(paragraph(name, ask(name, worker)))
        for name, answer in own.items():
            print(paragraph(name, answer))


def ask(name: str, worker: Isolation) -> Description | Failed:
    """The kept answer, or a new one; what a class in the current folder says is not kept, for others have a folder like it."""
    entry = registry.find(name)
    if ":" not in name and (kept := answers.recall(entry)) is not None and not kept.missing:
        return kept
    answer, _ = worker.ask(Inquiry(method=name), _TIMEOUT)
    assert isinstance(answer, Description | Failed)
    if isinstance(answer, Description) and ":" not in name:
        answers.remember(entry, answer)
    return answer


def paragraph(name: str, answer: Description | Failed) -> str:
    """The method as text, at most 80 columns."""
    if isinstance(answer, Failed):
        return f"{name}\n{_wrapped(f'{answer.status}: {answer.reason}')}"
    masks = {"none": "non-causal only", "full": "causal", "values_only": "causal for values only"}
    facts = [f"tier {answer.tier}", masks[answer.causality], answer.paper]
    lines = [_wrapped(answer.summary), _wrapped("; ".join(facts))]
    if answer.parameters:
        lines.append(_wrapped(f"parameters: {', '.join(answer.parameters)}"))
    if answer.missing:
        lines.append(_wrapped(f"missing: pip install {' '.join(map(repr, answer.missing))}"))
    return "\n".join([name, *lines])


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 80, initial_indent=_INDENT, subsequent_indent=_INDENT)
