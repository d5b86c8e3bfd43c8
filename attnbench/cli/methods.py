"""`attnbench methods`: what is installed, asked of each method in a process of its own."""

import textwrap

from attnbench import registry
from attnbench.cli.select import address
from attnbench.schema.errand import Description, Inquiry
from attnbench.schema.outcome import Failed
from attnbench.store import answers
from attnbench.worker.isolate import Isolation

_TIMEOUT = 30.0
_INDENT = " " * 4


def show_methods(impls: tuple[str, ...]) -> None:
    """One paragraph a method: those that cannot even be asked say why, and cost the others nothing."""
    names = [*registry.catalogue(), *map(address, impls)]
    with Isolation() as worker:
        for name in names:
            print(paragraph(name, ask(name, worker)))


def ask(name: str, worker: Isolation) -> Description | Failed:
    """The kept answer, or a new one."""
    entry = registry.find(name)
    if (kept := answers.recall(entry)) is not None and not kept.missing:
        return kept
    answer, _ = worker.ask(Inquiry(method=name), _TIMEOUT)
    if isinstance(answer, Description):
        answers.remember(entry, answer)
        return answer
    assert isinstance(answer, Failed)
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
