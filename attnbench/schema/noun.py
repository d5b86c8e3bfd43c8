"""Noun: the frozen, strict base class of everything that is stored or sent, and validation errors in words."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

Scalar = bool | int | float | str
"""The types that a method parameter or a recorded fact can have."""
# the first type that fits is the right one: an int, which would be a float as well, stands before it, and numbers are most
Facts = dict[str, Annotated[int | float | str | bool | None, Field(union_mode="left_to_right")]]
"""Recorded facts by name, None where one is not known."""

_T = TypeVar("_T")
# enum members may be written as plain strings in Python, as they are in JSON
Lax = Annotated[_T, Strict(False)]


class Noun(BaseModel):
    """Immutable data; an unknown field or a value of the wrong type is an error."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=True, ser_json_inf_nan="strings")


def in_words(error: BaseException) -> str:
    """Return the text of an exception, never empty; for invalid data, name each wrong field and its value."""
    if isinstance(error, ValidationError):
        parts = []
        for each in error.errors():
            place, said, given = ".".join(map(str, (error.title, *each["loc"]))), each["msg"], each["input"]
            it_is = f"{given!r}" if isinstance(given, Scalar | None) else f"a {type(given).__name__}"
            parts.append(f"{place}: {said[0].lower()}{said[1:]}; it is {it_is}")
        return "; ".join(parts)
    try:
        return str(error).strip() or type(error).__name__
    except BaseException as another:  # noqa: BLE001 - an exception's __str__ can be a plugin's code and raise anything
        return f"{type(error).__name__}, whose own text cannot be had: it raises {type(another).__name__}"
