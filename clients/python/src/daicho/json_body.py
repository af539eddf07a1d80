"""Converts values to the JSON of requests. Refuses values that JSON cannot represent."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Mapping, Sequence

from .errors import LedgerError

#: Maximum levels of nesting that a node accepts.
DEPTH_MAX = 64


def json_text(value: Any, root: str) -> str:
    """Returns `value` as JSON. Raises LedgerError, VALUE_INVALID, with the path of the member, starting with `root`."""
    fault = _fault_in(value, root, 0)
    if fault is not None:
        raise LedgerError("VALUE_INVALID", 0, fault)
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


# Programs without type checks pass None or other wrong values. A request without such a value would have another meaning.


def require_object(value: Any, root: str) -> dict[str, Any]:
    """Returns `value`, which must be a mapping, as a dict. Raises LedgerError, VALUE_INVALID."""
    if isinstance(value, Mapping):
        return dict(value)
    raise value_invalid(value, root, "a dict")


def require_list(value: Any, root: str) -> list[Any]:
    """Returns `value`, which must be a sequence, as a list. Raises LedgerError, VALUE_INVALID."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return list(value)
    raise value_invalid(value, root, "a list")


def require_text(value: Any, root: str) -> str:
    """Returns `value`, which must be a str that is not empty. Raises LedgerError, VALUE_INVALID."""
    if isinstance(value, str) and value:
        return value
    raise value_invalid(value, root, "a text")


def require_count(value: Any, root: str, least: int = 0) -> int:
    """Returns `value`, which must be an int of `least` or more. Raises LedgerError, VALUE_INVALID."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise value_invalid(value, root, f"an int of {least} or more")


def require_state(at: Any) -> int | str | None:
    """Requires a height, or a time of RFC 3339, which the node parses."""
    if isinstance(at, str) and re.match(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d", at):
        return at
    return None if at is None else require_count(at, "at")


def value_invalid(value: Any, root: str, expected: str) -> LedgerError:
    """Returns the error for a wrong argument."""
    return LedgerError("VALUE_INVALID", 0, f"{root} is {_kind_of(value)} instead of {expected}")


def _fault_in(value: Any, path: str, depth: int) -> str | None:
    if value is None or isinstance(value, (str, bool)):
        return None
    if isinstance(value, int):
        return None if _is_exact(value) else f"{path} is {value}, which a node cannot return unchanged: use a str"
    if isinstance(value, float):
        # `value - value` is NaN if `value` is NaN or infinite.
        return None if value - value == 0 else f"{path} is {value}, which JSON cannot hold"
    if not isinstance(value, (dict, list, tuple)):
        return f"{path} is {_kind_of(value)}, which JSON cannot hold"
    if depth == DEPTH_MAX:
        return f"{path.split('/')[0]} is nested deeper than {DEPTH_MAX}, or contains itself"
    for name, member in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(value, dict) and not isinstance(name, str):
            return f"{path} has the name {name!r}, which is not a str"
        fault = _fault_in(member, f"{path}/{name}", depth + 1)
        if fault is not None:
            return fault
    return None


def _is_exact(value: int) -> bool:
    """Whether a node accepts `value`: as the shortest or the 17-digit decimal of a double."""
    if -(2**53) <= value <= 2**53:
        return True
    try:
        number = float(value)
    except OverflowError:
        return False
    return value in (Decimal(repr(number)), Decimal(f"{number:.16e}"))


def _kind_of(value: Any) -> str:
    if value is None or value == "" or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return repr(value)
    return f"a {type(value).__name__}"
