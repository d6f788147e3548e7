"""Small checks that compose into tables; each raises in the API's own words, with the path at fault.

A check never changes or returns a value. Fields that a table does not name are left alone, so that
a newer client's fields survive.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from gateway.errors import RequestError

Check = Callable[[Any, str], None]

# What the API calls a value's type in its error texts.
_TYPE_WORDS: dict[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def missing(path: str) -> RequestError:
    return RequestError(
        f"Missing required parameter: '{path}'.", code="missing_required_parameter", param=path
    )


def wrong_type(path: str, expected: str, value: Any) -> RequestError:
    got = f"but got {_TYPE_WORDS[type(value)]} instead."
    if not path:  # the body itself
        return RequestError(
            f"Invalid type for the request body: expected {expected}, {got}", code="invalid_type"
        )
    return RequestError(
        f"Invalid type for '{path}': expected {expected}, {got}", code="invalid_type", param=path
    )


def wrong_value(path: str, value: str, supported: tuple[str, ...]) -> RequestError:
    return RequestError(
        f"Invalid value: '{value}'. Supported values are: {_listed(supported)}.",
        code="invalid_value",
        param=path,
    )


def invalid(path: str, reason: str, code: str) -> RequestError:
    return RequestError(f"Invalid '{path}': {reason}", code=code, param=path)


def _listed(values: tuple[str, ...]) -> str:
    quoted = [f"'{value}'" for value in values]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"


# ------------------------------------------------------------------------------------ plain values
def anything(value: Any, path: str) -> None:
    """For fields that must be there, whatever they hold."""


def string(value: Any, path: str) -> None:
    if type(value) is not str:
        raise wrong_type(path, "a string", value)


def boolean(value: Any, path: str) -> None:
    if type(value) is not bool:
        raise wrong_type(path, "a boolean", value)


def record(value: Any, path: str) -> None:
    if type(value) is not dict:
        raise wrong_type(path, "an object", value)


def filled(value: Any, path: str) -> None:
    """A string that is not empty."""
    string(value, path)
    if not value:
        raise invalid(
            path,
            "empty string. Expected a string with minimum length 1, "
            "but got an empty string instead.",
            "empty_string",
        )


def matching(pattern: str, max_length: int) -> Check:
    """A non-empty string of limited length that a pattern accepts whole."""
    accepts = re.compile(pattern).fullmatch

    def check(value: Any, path: str) -> None:
        filled(value, path)
        if len(value) > max_length:
            raise invalid(
                path,
                f"string too long. Expected a string with maximum length {max_length}, "
                f"but got a string with length {len(value)} instead.",
                "string_above_max_length",
            )
        if not accepts(value):
            raise invalid(
                path,
                "string does not match pattern. "
                f"Expected a string that matches the pattern '^{pattern}$'.",
                "invalid_value",
            )

    return check


def decimal(low: float, high: float) -> Check:
    """A number (a boolean is none) within bounds."""
    return _number((int, float), "a decimal", "decimal", low, high)


def integer(low: int, high: float = float("inf")) -> Check:
    return _number((int,), "an integer", "integer", low, high)


def _number(types: tuple[type, ...], expected: str, noun: str, low: float, high: float) -> Check:
    def check(value: Any, path: str) -> None:
        if type(value) not in types:
            raise wrong_type(path, expected, value)
        for is_out, side, sign, bound in (
            (value < low, "below minimum", ">=", low),
            (value > high, "above maximum", "<=", high),
        ):
            if is_out:
                raise invalid(
                    path,
                    f"{noun} {side} value. "
                    f"Expected a value {sign} {bound}, but got {value} instead.",
                    f"{noun}_{side.replace('imum', '').replace(' ', '_')}_value",
                )

    return check


def one_of(*supported: str) -> Check:
    def check(value: Any, path: str) -> None:
        string(value, path)
        if value not in supported:
            raise wrong_value(path, value, supported)

    return check


# ------------------------------------------------------------------------------------- combinations
def nullable(check: Check) -> Check:
    """null means the same as absent."""

    def check_or_null(value: Any, path: str) -> None:
        if value is not None:
            check(value, path)

    return check_or_null


def array(each: Check, *, of: str = "an array", min_length: int = 0) -> Check:
    def check(value: Any, path: str) -> None:
        if type(value) is not list:
            raise wrong_type(path, of, value)
        if len(value) < min_length:
            raise invalid(
                path,
                f"empty array. Expected an array with minimum length {min_length}, "
                "but got an empty array instead.",
                "empty_array",
            )
        for index, member in enumerate(value):
            each(member, f"{path}[{index}]")

    return check


def string_or(list_check: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if type(value) is list:
            list_check(value, path)
        elif type(value) is not str:
            raise wrong_type(path, "one of a string or array of objects", value)

    return check


def fields(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object: every required key there and right, every optional one right or null."""
    table = [(name, check, True) for name, check in required.items()]
    table += [(name, nullable(check), False) for name, check in (optional or {}).items()]

    def check_fields(value: Any, path: str) -> None:
        record(value, path)
        for name, check, is_required in table:
            if name in value:
                check(value[name], f"{path}.{name}" if path else name)
            elif is_required:
                raise missing(f"{path}.{name}" if path else name)

    return check_fields


def by_type(table: Mapping[str, Check], *, open_ended: bool = False) -> Check:
    """An object whose `type` selects its row; without a row it is refused, or let through."""
    supported = tuple(table)

    def check(value: Any, path: str) -> None:
        record(value, path)
        if "type" not in value:
            raise missing(f"{path}.type")
        kind = value["type"]
        string(kind, f"{path}.type")
        row = table.get(kind)
        if row is not None:
            row(value, path)
        elif not open_ended:
            raise wrong_value(f"{path}.type", kind, supported)

    return check
