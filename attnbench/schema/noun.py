"""Noun: the frozen, strict base of everything that is stored or sent, and what is wrong with one in words."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Strict, ValidationError

Scalar = bool | int | float | str
"""What a method parameter or a recorded fact may be."""

_T = TypeVar("_T")
# enum members may be written as plain strings in Python, as they are in JSON
Lax = Annotated[_T, Strict(False)]


class Noun(BaseModel):
    """Immutable data; an unknown field or a value of the wrong type is an error."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=True, ser_json_inf_nan="strings")


def in_words(error: BaseException) -> str:
    """What an exception says, never empty; of data that does not fit, each place and what stands there."""
    if isinstance(error, ValidationError):
        wrong = [(".".join(map(str, (error.title, *e["loc"]))), e["msg"], e["input"]) for e in error.errors()]
        return "; ".join(f"{place}: {said[0].lower()}{said[1:]}{_it_is(given)}" for place, said, given in wrong)
    try:
        return str(error).strip() or type(error).__name__
    except BaseException as another:  # noqa: BLE001 - the text of an exception is code of whoever wrote it
        return f"{type(error).__name__}, whose own text cannot be had: it raises {type(another).__name__}"


def _it_is(given: object) -> str:
    return f"; it is {given!r}" if isinstance(given, bool | int | float | str | None) else f"; it is a {type(given).__name__}"
