"""Checks a value against the types of an SDK's requests, and allows no key that they do not have."""

import functools
import typing

import typing_extensions
from pydantic import TypeAdapter, ValidationError


def forbidding(kind, seen=None):
    """Marks a typed dictionary, and every one that it refers to, so that unknown keys are refused."""
    seen = set() if seen is None else seen
    if id(kind) in seen:
        return
    seen.add(id(kind))
    if typing_extensions.is_typeddict(kind):
        kind.__pydantic_config__ = {"extra": "forbid", "arbitrary_types_allowed": True}
        for field in typing_extensions.get_type_hints(kind, include_extras=True).values():
            forbidding(field, seen)
    for argument in typing.get_args(kind):
        forbidding(argument, seen)


@functools.cache
def checker(kind):
    """Makes the checker of a type. It must live for as long as what it has checked is read."""
    forbidding(kind)
    return TypeAdapter(kind)


def read_through(value):
    """Reads everything in a checked value. What is typed as an iterable is checked only when it is read."""
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return
    for item in value:
        read_through(item)


def check(kinds, value):
    """Returns why a value fits none of these types, or None if it fits one."""
    reasons = []
    for kind in kinds:
        try:
            read_through(checker(kind).validate_python(value))
            return None
        except ValidationError as error:
            reasons.append(str(error))
    return "\n".join(reasons)
