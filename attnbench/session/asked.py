"""The words of a caller turned into a suite, its methods, lengths and shares; what cannot be taken is an ArgumentError."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from attnbench import registry
from attnbench.analyze.sections import grouped
from attnbench.report.text.names import one_line
from attnbench.schema.cell import Cell, plain_name
from attnbench.schema.errors import ArgumentError, UsageError, did_you_mean
from attnbench.schema.noun import Scalar
from attnbench.schema.suite import Axes, Method, Override, Suite
from attnbench.schema.units import bytes_
from attnbench.session.scout import Scouted
from attnbench.suite.expand import UnfitError
from attnbench.suite.load import Loaded, load, words

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([KMGT]?)(i?)B\s*", re.IGNORECASE)
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)\s*")
_PREFIXES = " KMGT"
_NO_LETTERS = re.compile("[\ud800-\udfff]")
"""Bytes of a command line that are no text, and cannot be sent to a worker."""
_Word = TypeVar("_Word", bound=StrEnum)
SuiteLike = str | Path | Mapping[str, Any] | Suite
"""The name of a suite that ships, a file, a dict as a file holds it, or a suite that was loaded."""
Impl = str | type | Sequence[str | type]
"""One's own attention, or several: classes, module:Class or file.py:Class."""


@dataclass(frozen=True, kw_only=True)
class Only:
    """The part of a suite that is wanted; or, where there is no suite, all that is."""

    methods: str | Sequence[str] = ()
    """Names, patterns as `linear.*`, and names with parameters as `lsh.reformer(rounds=8)`."""
    N: int | str | Sequence[int | str] = ()
    """Lengths as in a suite: 512, 2^9, 512..8192, or several."""
    workloads: str | Sequence[str] = ()
    causal: bool | None = None

    @property
    def given(self) -> dict[str, Any]:
        """What is asked for, by name; an empty word or a length of 0 is, and cannot be had."""
        fields = {"methods": self.methods, "N": self.N, "workloads": self.workloads, "causal": self.causal}
        return {name: value for name, value in fields.items() if value not in ((), [], None)}

    def as_suite(self) -> dict[str, object]:
        """Make a suite of these methods alone: one sequence of 2^9 to 2^12 tokens, forward, causal, if nothing else is said."""
        return {
            "name": "no-file",
            "source": "methods, lengths and workloads that were named one by one",
            "axes": {"N": "2^9..2^12", "tokens": 1, "causal": True},
            "methods": [dict(method) for method in self.meant()],
            "budget": {"seconds": 1},
            "report": {"tables": ["summary", "speedup", "time", "memory"]},
        }

    def meant(self, own: Sequence[str] = ()) -> list[Method]:
        """Find the methods that are named, of those of a suite or else of all that are installed. Raises ArgumentError."""
        found = []
        for text in (name for each in several(self.methods) for name in split_names(each)):
            name, bracket, rest = text.partition("(")
            name = name.strip()
            if bracket and not rest.endswith(")"):
                raise ArgumentError("methods", text, "its bracket is not closed")
            params = parameters(rest.removesuffix(")").split(","), "methods") if bracket else {}
            matching = [name]
            if set(name) & set("*?["):
                matching = [known for known in own or registry.catalogue() if fnmatchcase(known, name)]
                if not matching:
                    raise ArgumentError("methods", text, f"no method {'of the suite ' if own else ''}has such a name")
            elif not own and not is_method(name):
                raise ArgumentError("methods", name, registry.no_method(name))
            found += [Method(name=each, params={key: (value,) for key, value in params.items()}) for each in matching]
        if not found:
            raise ArgumentError("methods", self.methods, "no method is named")
        return found


def select(
    given: SuiteLike | None, impl: Impl = (), device: str | None = None, replicates: int | None = None, only: Only | None = None
) -> tuple[Loaded, Suite]:
    """Return the suite as it was written, and as the other arguments change it. Raises SuiteError, UsageError."""
    only = only or Only()
    wanted = only.given
    if not given and "methods" not in wanted:
        raise UsageError("name a suite or methods, as: attnbench run quick, attnbench plan --methods 'linear.*,softmax.sdpa'")
    loaded = load(given or only.as_suite())
    suite, added = loaded.suite, tuple(Method(name=name) for name in addresses(impl))
    chosen = grouped(
        (method.name, method.params) for method in (only.meant(sorted(suite.names)) if given and "methods" in wanted else ())
    )
    if chosen:
        suite = narrowed(suite, list(chosen), "methods")
    fields: dict[str, object] = {"device": device, "replicates": replicates, "workloads": wanted.get("workloads")}
    axes: dict[str, object] = {"N": wanted.get("N"), "causal": only.causal}
    fields, axes = ({name: value for name, value in each.items() if value is not None} for each in (fields, axes))

    def written(of: Suite | Override, given: dict[str, object]) -> dict[str, object]:
        """Return what the file says of one device or all, less what is asked for instead, which holds on every device."""
        kept = {name: getattr(of, name) for name in of.model_fields_set - fields.keys()}
        kept["axes"] = {name: getattr(of.axes, name) for name in of.axes.model_fields_set - axes.keys()} | given
        own: list[Method] = []
        for method in of.methods or ():
            for params in chosen.get(method.name, [{}]):
                variant = method.model_copy(update={"params": {**method.params, **params}})
                # two of the suite may become one by the parameters that are asked for
                own += [variant] if variant not in own else []
        return kept | ({"methods": (*own, *added)} if own else {})

    on = {kind: written(override, {}) for kind, override in suite.on.items()}
    suite = validated(written(suite, axes) | fields | {"on": on}, fields | axes)
    wrong = [
        loaded.source.line((*place, "name"), registry.no_method(method.name))
        for place, method in _methods(suite)
        if ":" not in method.name and not registry.is_known(method.name)
    ]
    if wrong:
        raise UsageError("\n".join(wrong))
    return loaded, suite


def several(given: str | Sequence[str]) -> Sequence[str]:
    """Return words that were given as one or as several: a text is one word, and no sequence of letters."""
    return (given,) if isinstance(given, str) else given


def split_names(text: str) -> list[str]:
    """Split at commas outside brackets: `softmax.sdpa,lsh.reformer(bucket_size=64, rounds=4)` names two."""
    return [name.strip() for name in re.findall(r"(?:[^,(]|\([^)]*\)?)+", text) if name.strip()]


def parameters(given: Sequence[str], argument: str = "param") -> dict[str, Scalar]:
    """`stride=8` by name: a number, true or false (or True, as labels say it), or else a word. Raises ArgumentError."""
    found: dict[str, Scalar] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name.isidentifier() or _NO_LETTERS.search(value):
            raise ArgumentError(argument, text, "write it as name=value, as stride=8")
        try:
            read = json.loads(value.lower() if value in {"True", "False"} else value)
        except ValueError:
            read = value
        if str(read).lower() in {"nan", "inf", "-inf", "infinity", "-infinity"}:
            raise ArgumentError(argument, text, "it is no finite number")
        if name in found:
            raise ArgumentError(argument, text, f"{name} is given twice")
        found[name] = read if isinstance(read, bool | int | float) else value
    return found


def validated(data: Mapping[str, object], given: Mapping[str, object], called: Mapping[str, str] | None = None) -> Suite:
    """Make a suite of these fields. Raises ArgumentError for one that does not fit, UsageError where they clash.

    `given` are the arguments that fields were made of, by the name of the field; `called` those that have another name.
    """
    try:
        return Suite.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:
            raise UsageError(words(first)) from None
        keys = [part for part in reversed(first["loc"]) if isinstance(part, str)]
        name = next((key for key in keys if key in given), keys[0])
        raise ArgumentError((called or {}).get(name, name), given.get(name), words(first)) from None


def _methods(suite: Suite) -> Iterator[tuple[tuple[str | int, ...], Method]]:
    """Return all methods that a suite names, on any device, with their places in its file."""
    yield from ((("methods", i), method) for i, method in enumerate(suite.methods))
    for kind, override in suite.on.items():
        yield from ((("on", kind, "methods", i), method) for i, method in enumerate(override.methods or ()))


def addresses(given: Impl) -> tuple[str, ...]:
    """List one's own attentions, as one or several were given. Raises ArgumentError."""
    return tuple(map(address, (given,) if isinstance(given, str | type) else given))


def address(impl: str | type) -> str:
    """Turn a class, or its address as module:Class or path/to/file.py:Class, into an address. Raises ArgumentError."""
    if isinstance(impl, type):
        try:
            return registry.address_of(impl)
        except registry.UnknownMethodError as error:
            raise ArgumentError("impl", impl.__name__, str(error)) from None
    if not is_address(impl):
        example = "for example my_attention:MyAttention"
        raise ArgumentError("impl", impl, f"write it as module:Class or path/to/file.py:Class, {example}")
    return impl


def is_method(name: str) -> bool:
    """Say whether a method of that name is installed, or it has the form of an address."""
    return registry.is_known(name) or is_address(name)


def is_address(word: str) -> bool:
    """Say whether it has the form module:Class or path/to/file.py:Class, whatever form of the method it asks for."""
    module, colon, name = plain_name(word).rpartition(":")
    is_module = all(part.isidentifier() for part in module.split(".")) or module.endswith(".py")
    return bool(colon) and name.isidentifier() and is_module and not _NO_LETTERS.search(word)


@contextmanager
def placing(loaded: Loaded | None) -> Iterator[None]:
    """Say where in the file stands what no cells can be made of. Raises UsageError."""
    try:
        yield
    except UnfitError as error:
        if loaded is None:
            raise
        place: tuple[str | int, ...] = error.path[:1]
        if error.method:
            method, kind = error.method, error.kind

            def likeness(each: tuple[tuple[str | int, ...], Method]) -> tuple[bool, ...]:
                """Say how far it is the method that is meant; other arguments may have changed its parameters."""
                at, known = each
                return known == method, (known.name, known.when) == (method.name, method.when), at[:2] == ("on", kind)

            place, _ = max(_methods(loaded.suite), key=likeness)
        elif _is_overridden(loaded.suite, error):
            place = ("on", error.kind, *place)
        raise UsageError(loaded.source.line((*place, *error.path[1:]), error.why)) from None


def _is_overridden(suite: Suite, error: UnfitError) -> bool:
    """Say whether what is wrong is written for one kind of device."""
    first, *rest = error.path or ("",)
    here = getattr(suite.on.get(error.kind), first, None)
    if here is None:
        return False
    if rest:
        return bool(here.model_fields_set.issuperset(rest))
    # a model is replaced as a whole, the others key by key
    is_whole = first == "model" or getattr(suite, first) is None
    return is_whole or any(re.search(rf"\b{name}\b", error.why) for name in here.model_fields_set)


def check_methods(loaded: Loaded | None, scouted: Scouted, *others: Scouted) -> None:
    """Refuse what is no method, and parameters that a method does not have, with the place or the option; raises UsageError.

    A module in a suite that raises when it is imported costs only its own cells; one that the caller adds has to be there,
    for it is what was asked for. What is a method in one of several commits has been lost, and is no mistake of a name.
    """
    failures = {name: failed for name, failed in scouted.failures.items() if all(name in each.failures for each in others)}
    own = loaded.suite.names if loaded else ()
    if added := [f"{name}: {failed.reason}" for name, failed in failures.items() if ":" in name and name not in own]:
        raise UsageError("\n".join(added))
    if loaded is not None:
        wrong = []
        for place, method in _methods(loaded.suite):
            if method.name in failures and failures[method.name].facts.get("unknown"):
                wrong.append(loaded.source.line((*place, "name"), failures[method.name].reason))
            if description := scouted.descriptions.get(method.name):
                found = unknown_parameters(method.params, description.parameters)
                wrong += [loaded.source.line((*place, "params", name), why) for name, why in found.items()]
        if wrong:
            raise UsageError("\n".join(wrong))
    # those of the file are the method's by now
    for method in scouted.suite.methods:
        if description := scouted.descriptions.get(method.name):
            for name, why in unknown_parameters(method.params, description.parameters).items():
                raise ArgumentError("methods", f"{method.name}({name}={method.params[name][0]})", why)


def unknown_parameters(given: Iterable[str], known: tuple[str, ...]) -> dict[str, str]:
    """Say of each parameter that a method does not have which was probably meant; one with `**params` judges them itself."""
    if any(each.startswith("**") for each in known):
        return {}
    none, has = "the method has no such parameter; ", f"it has: {', '.join(known) or 'none'}"
    return {name: f"{none}{did_you_mean(name, known, 3)}{has}" for name in given if name not in known}


def narrowed(suite: Suite, wanted: Sequence[str], argument: str) -> Suite:
    """Keep only the methods of a suite that are named, by label, name or address; those that it or a device lacks are added.

    Raises ArgumentError for a name that is neither in the suite nor installed, and no address.
    """
    names = tuple(dict.fromkeys(name.partition("(")[0].strip() for name in wanted))
    own = suite.names
    known = [*own, *(name for name in registry.catalogue() if name not in own)]
    for name in names:
        if name not in own and not is_method(name):
            has = f"the suite has: {', '.join(sorted(own))}"
            raise ArgumentError(argument, name, f"no such method; {did_you_mean(name, known, 3)}{has}")

    def named(methods: Iterable[Method], more: Iterable[Method] = ()) -> tuple[Method, ...]:
        """Keep those that are wanted, and of more those that are missing then."""
        found = tuple(method for method in methods if method.name in names)
        there = {method.name for method in found}
        return found + tuple(method for method in more if method.name not in there)

    added = tuple(Method(name=name) for name in names if name not in own)
    kept = named(suite.methods) + added or tuple(Method(name=name) for name in names)
    changes = {
        "methods": kept,
        # what the suite has for another device alone stays there
        "on": {
            device: override.model_copy(update={"methods": named(override.methods, kept)}) if override.methods else override
            for device, override in suite.on.items()
        },
        "report": suite.report.of_methods(names),
    }
    return suite.model_copy(update=changes)


def pick(wanted: str, labels: Iterable[str], argument: str) -> list[str]:
    """Find the label that is meant, or all of the method that is. Raises ArgumentError."""
    labels = list(labels)
    plain = {label.replace(" ", ""): label for label in labels}
    if (exact := plain.get(wanted.replace(" ", ""))) is not None:
        return [exact]
    if same := [label for label in labels if label.partition("(")[0] == wanted]:
        return same
    shown = [one_line(label) for label in labels]
    there = f"there are: {', '.join(shown)}"
    raise ArgumentError(argument, wanted, f"not among the methods; {did_you_mean(wanted, shown, 3)}{there}")


def pick_one(wanted: str, labels: Iterable[str], argument: str) -> str:
    """Find the one label that is meant. Raises ArgumentError, also where there are several."""
    found = pick(wanted, labels, argument)
    if len(found) > 1:
        raise ArgumentError(argument, wanted, f"name one of {', '.join(repr(one_line(label)) for label in found)}")
    return found[0]


def word(known: type[_Word], given: str, argument: str) -> _Word:
    """Return one of a few words. Raises ArgumentError that says which was probably meant."""
    return known(one_of([each.value for each in known], given, argument))


def one_of(known: Iterable[str], given: str, argument: str) -> str:
    """Return a name that is among those known. Raises ArgumentError that says which was probably meant."""
    names = list(known)
    if given in names:
        return given
    raise ArgumentError(argument, given, f"{did_you_mean(given, names)}there are: {', '.join(names) or 'none'}")


def cells_meant(cells: Sequence[Cell], word: str) -> list[Cell]:
    """Return the cells whose key begins so, or whose method with its parameters is called so. Raises ArgumentError."""
    if named := [cell for cell in cells if cell.label == word]:
        return named
    found = [cell for cell in cells if word and cell.key.startswith(word.lower())]
    if len(found) > 1:
        raise ArgumentError(
            "cell", word, f"{len(found)} keys begin so, as {found[0].key[:12]} and {found[1].key[:12]}; write more"
        )
    if not found:
        one_of(sorted({cell.label for cell in cells}), word, "cell")
    return found


def length(given: int | str, argument: str) -> int:
    """`4096` or `2^12`, as in a suite. Raises ArgumentError."""
    try:
        lengths = Axes.model_validate({"N": given}).N
    except ValidationError as error:
        raise ArgumentError(argument, given, error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    if len(lengths) != 1:
        raise ArgumentError(argument, given, "one number is wanted, not a range")
    return lengths[0]


def share(given: float | str, argument: str) -> float:
    """`8%` or `0.08`: a share above 0 and of at most 1000%, from 1 on with the sign, for an 8 is meant as 8%.

    Raises ArgumentError.
    """
    match = _SHARE.fullmatch(str(given))
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value <= 10 or (value >= 1 and "%" not in str(given)):
        raise ArgumentError(argument, given, "write a share, for example 8% or 0.08")
    return value


def amount(given: str, argument: str) -> float:
    """`8GiB` or `500MB` in bytes. Raises ArgumentError."""
    match = _SIZE.fullmatch(given)
    if match is None or float(match[1]) == 0:
        raise ArgumentError(argument, given, "write an amount of memory, as 8GiB or 500MB")
    size: float = float(match[1]) * (1024 if match[3] else 1000) ** _PREFIXES.index(match[2].upper() or " ")
    return size


def memory_share(given: float | str, free: int, argument: str) -> float:
    """`0.7`, `70%` or `8GiB` as a share of the bytes that are free. Raises ArgumentError, also where that is more than all."""
    if _SIZE.fullmatch(str(given)):
        asked = amount(str(given), argument) / free
    elif match := _SHARE.fullmatch(str(given)):
        asked = float(match[1]) / (100 if match[2] else 1)
    else:
        raise ArgumentError(argument, given, "write a share of the memory that is free, or an amount: 0.7, 70% or 8GiB")
    if not 0 < asked <= 1:
        raise ArgumentError(argument, given, f"more than nothing and at most the {bytes_(free)} that are free")
    return asked
