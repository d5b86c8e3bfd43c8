"""From the words of a command line to a suite, its methods checked by name and parameter."""

from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from attnbench import registry
from attnbench.cli.errors import UsageError
from attnbench.executors.scout import Scouted
from attnbench.schema.outcome import Failed
from attnbench.schema.suite import Method, Suite
from attnbench.suite.load import Loaded, load, words


def select(name: str, impls: tuple[str, ...], device: str | None, replicates: int | None = None) -> tuple[Loaded, Suite]:
    """The suite as its file says it, and as the command line changes it; raises SuiteError, UsageError."""
    loaded = load(name)
    added = tuple(Method(name=address(i)) for i in impls)
    on = {kind: o.model_copy(update={"methods": o.methods + added}) if o.methods else o for kind, o in loaded.suite.on.items()}
    changes: dict[str, object] = {"methods": loaded.suite.methods + added, "on": on}
    if device is not None:
        changes["device"] = device
    if replicates is not None:
        changes["replicates"] = replicates
    try:
        suite = Suite.model_validate({**dict(loaded.suite), **changes})
    except ValidationError as error:
        raise refused(error, {"device": device, "replicates": replicates}) from None
    if replicates is not None:
        on = {kind: o.model_copy(update={"replicates": replicates}) for kind, o in suite.on.items()}
        suite = suite.model_copy(update={"on": on})
    known = registry.catalogue()
    wrong = [
        loaded.error((*place, "name"), registry.no_method(method.name))
        for place, method in _methods(suite)
        if ":" not in method.name and method.name not in known
    ]
    if wrong:
        raise UsageError("\n".join(wrong))
    return loaded, suite


def refused(error: ValidationError, given: Mapping[str, object]) -> UsageError:
    """What of the command line a suite does not take: a line for each option, whose name is that of the field."""
    wrong = {next(str(part) for part in reversed(each["loc"]) if part in given): each for each in error.errors()}
    return UsageError("\n".join(f"--{name} {given[name]}: {words(each)}" for name, each in wrong.items()))


def _methods(suite: Suite) -> Iterator[tuple[tuple[str | int, ...], Method]]:
    """All methods that a suite names, on any device, with their places in its file."""
    yield from (((("methods", i)), method) for i, method in enumerate(suite.methods))
    for kind, override in suite.on.items():
        yield from ((("on", kind, "methods", i), method) for i, method in enumerate(override.methods or ()))


def address(impl: str) -> str:
    """Check the form module:Class or path/to/file.py:Class; raises UsageError."""
    if not is_address(impl):
        raise UsageError(
            f"--impl {impl}: write it as module:Class or path/to/file.py:Class, for example --impl my_attention:MyAttention"
        )
    return impl


def is_address(word: str) -> bool:
    """Whether it has the form module:Class or path/to/file.py:Class."""
    module, colon, name = word.rpartition(":")
    is_module = all(part.isidentifier() for part in module.split(".")) or module.endswith(".py")
    return bool(colon) and name.isidentifier() and is_module and is_text(word)


def is_text(word: str) -> bool:
    """Whether it can be sent to a worker: a command line may hold bytes that are no letters."""
    return not any("\ud800" <= letter <= "\udfff" for letter in word)


def check_methods(loaded: Loaded | None, scouted: Scouted, *others: Scouted) -> None:
    """Refuse what is no method, and parameters that a method does not have, with the place in the file; raises UsageError.

    A module in a suite that raises when it is imported costs only its own cells; one that the command line adds has to be
    there, for it is what was asked for. What is a method in one of several commits has been lost, and is no mistake of a name.
    """
    failures = {name: failed for name, failed in scouted.failures.items() if all(name in each.failures for each in others)}
    own = {method.name for _, method in _methods(loaded.suite)} if loaded else set()
    option = "--impl " if loaded else ""
    wrong = [f"{option}{name}: {failed.reason}" for name, failed in failures.items() if ":" in name and name not in own]
    wrong += _mistakes(loaded, scouted, failures) if loaded else ()
    if wrong:
        raise UsageError("\n".join(wrong))


def _mistakes(loaded: Loaded, scouted: Scouted, failures: Mapping[str, Failed]) -> Iterator[str]:
    """What a suite's file names that is no method or no parameter, each with its place."""
    for place, method in _methods(loaded.suite):
        if method.name in failures and failures[method.name].facts.get("unknown"):
            yield loaded.error((*place, "name"), failures[method.name].reason)
        if description := scouted.descriptions.get(method.name):
            for name in method.params:
                if not takes(description.parameters, name):
                    yield loaded.error((*place, "params", name), no_parameter(name, description.parameters))


def takes(known: tuple[str, ...], name: str) -> bool:
    """Whether a method has such a parameter, or takes any by `**params` and judges them itself."""
    return name in known or any(each.startswith("**") for each in known)


def no_parameter(name: str, known: tuple[str, ...]) -> str:
    """That a method has no such parameter, which was probably meant, and which it has."""
    return f"the method has no such parameter; {registry.meant_by(name, known)}it has: {', '.join(known) or 'none'}"
