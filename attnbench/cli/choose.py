"""From the words of a command line to methods: of a suite, before it is expanded, and labels of a run."""

from collections.abc import Iterable, Sequence

from attnbench import registry
from attnbench.cli.errors import UsageError
from attnbench.cli.select import is_address
from attnbench.report.text.names import one_line
from attnbench.schema.suite import Method, Override, Suite


def narrowed(suite: Suite, wanted: Sequence[str], option: str) -> Suite:
    """The suite with only the methods that are named, by label, name or address; those that it lacks are added.

    Raises UsageError for a name that is neither in the suite nor installed, and no address.
    """
    names = tuple(dict.fromkeys(name.partition("(")[0].strip() for name in wanted))
    overrides = [override.methods or () for override in suite.on.values()]
    own = {method.name for methods in (suite.methods, *overrides) for method in methods}
    known = [*own, *(name for name in registry.catalogue() if name not in own)]
    for name in names:
        if name not in known and not is_address(name):
            raise UsageError(
                f"{option} {name}: no such method; {registry.meant_by(name, known)}the suite has: {', '.join(sorted(own))}"
            )
    added = tuple(Method(name=name) for name in names if name not in own)
    kept = _named(suite.methods, names) + added or tuple(Method(name=name) for name in names)
    changes = {
        "methods": kept,
        "on": {device: _narrowed(override, names, kept) for device, override in suite.on.items()},
        # a baseline that is left out would be none of the suite's methods
        "report": suite.report.model_copy(update={"baselines": tuple(b for b in suite.report.baselines if b in names)}),
    }
    return suite.model_copy(update=changes)


def _narrowed(override: Override, names: Sequence[str], kept: tuple[Method, ...]) -> Override:
    """Of its own methods those that are wanted; where none is, those of the suite."""
    if override.methods is None:
        return override
    return override.model_copy(update={"methods": _named(override.methods, names) or kept})


def _named(methods: Iterable[Method], names: Sequence[str]) -> tuple[Method, ...]:
    return tuple(method for method in methods if method.name in names)


def pick(wanted: str, labels: Iterable[str], option: str) -> list[str]:
    """The label that is meant, or all of the method that is; raises UsageError."""
    labels = list(labels)
    plain = {label.replace(" ", ""): label for label in labels}
    if (exact := plain.get(wanted.replace(" ", ""))) is not None:
        return [exact]
    if same := [label for label in labels if label.partition("(")[0] == wanted]:
        return same
    shown = [one_line(label) for label in labels]
    raise UsageError(
        f"{option} {wanted}: not among the methods; {registry.meant_by(wanted, shown)}there are: {', '.join(shown)}"
    )


def pick_one(wanted: str, labels: Iterable[str], option: str) -> str:
    """The one label that is meant; raises UsageError, also where there are several."""
    found = pick(wanted, labels, option)
    if len(found) > 1:
        raise UsageError(f"{option} {wanted}: name one of {', '.join(repr(one_line(label)) for label in found)}")
    return found[0]
