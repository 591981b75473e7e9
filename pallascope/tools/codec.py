"""Frozen values to builtins, JSON and bytes, and back.

A dataclass becomes a dict, a tuple a list, an enum its value. `bytes` stay bytes; `pack` moves
them behind the JSON text, so that arrays travel without being re-encoded.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import struct
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_UNIONS = (types.UnionType, typing.Union)


def to_builtins(value: Any) -> Any:
    """Reduce a value made of dataclasses, enums, tuples and dicts to builtins."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (f.name for f in dataclasses.fields(value))
        return {name: to_builtins(getattr(value, name)) for name in names}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (tuple, list)):
        return [to_builtins(item) for item in value]
    if isinstance(value, dict):
        return {key: to_builtins(item) for key, item in value.items()}
    return value


def from_builtins(kind: Any, data: Any) -> Any:
    """Rebuild a value of type `kind` from the result of `to_builtins`.

    Raises TypeError or ValueError if the data doesn't have that type's form.
    """
    origin = typing.get_origin(kind)
    if origin in _UNIONS:
        if data is None:
            return None
        (kind,) = (k for k in typing.get_args(kind) if k is not types.NoneType)
        return from_builtins(kind, data)
    if origin is tuple:
        _require(list, data)
        kinds = typing.get_args(kind)
        if kinds[-1] is Ellipsis:
            return tuple(from_builtins(kinds[0], item) for item in data)
        return tuple(from_builtins(k, item) for k, item in zip(kinds, data, strict=True))
    if origin is dict:
        _require(dict, data)
        _, inner = typing.get_args(kind)
        return {key: from_builtins(inner, item) for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        _require(dict, data)
        if unknown := set(data) - set(hints):
            raise TypeError(f"{kind} has no field {', '.join(sorted(unknown))}")
        return typing.cast(Any, kind)(**{k: from_builtins(hints[k], v) for k, v in data.items()})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    _require(kind, data)
    return data


def _require(kind: type, data: Any) -> None:
    if not isinstance(data, kind):
        raise TypeError(f"expected {kind.__name__}, got {type(data).__name__}: {data!r}")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


_LENGTH = struct.Struct("!Q")


def pack(value: Any) -> bytes:
    """Encode a value into one message: header length, JSON header, then the raw bytes of arrays.

    The header begins with the name of the value's type; `unpack` chooses from a union by it.
    """
    blobs: list[bytes] = []

    def strip(data: Any) -> Any:
        if isinstance(data, bytes):
            blobs.append(data)
            return {"$bytes": len(data)}
        if isinstance(data, list):
            return [strip(item) for item in data]
        if isinstance(data, dict):
            return {key: strip(item) for key, item in data.items()}
        return data

    header = json.dumps([type(value).__name__, strip(to_builtins(value))]).encode()
    return b"".join([_LENGTH.pack(len(header)), header, *blobs])


def unpack(
    kind: type[T] | types.UnionType,
    message: bytes,
    max_header: int | None = None,
    text: Callable[[str], str] = str,
) -> T:
    """Decode a message of `pack` with a value of type `kind`, or of one of a union's types.

    `max_header` limits the bytes of the JSON header: parsing JSON takes many times as much memory.
    `text` is applied to each string. Raises TypeError for a value of any other type, ValueError or
    struct.error for a message that `pack` didn't write.
    """
    (length,) = _LENGTH.unpack_from(message)
    offset = _LENGTH.size + length
    if offset > len(message) or (max_header is not None and length > max_header):
        raise ValueError(f"a header of {length} bytes in a message of {len(message)}")

    def take_bytes(count: object) -> bytes:
        nonlocal offset
        if type(count) is not int or not 0 <= count <= len(message) - offset:
            raise ValueError(f"{count!r} raw bytes at {offset} of {len(message)}")
        start, offset = offset, offset + count
        return message[start:offset]

    def fill(data: Any) -> Any:
        if isinstance(data, str):
            return text(data)
        if isinstance(data, list):
            return [fill(item) for item in data]
        if isinstance(data, dict):
            if set(data) == {"$bytes"}:
                return take_bytes(data["$bytes"])
            return {key: fill(item) for key, item in data.items()}
        return data

    name, data = json.loads(message[_LENGTH.size : offset])
    kinds = typing.get_args(kind) if typing.get_origin(kind) in _UNIONS else (kind,)
    chosen = next((candidate for candidate in kinds if _is_called(candidate, name)), None)
    if chosen is None:
        raise TypeError(f"expected {kind}, got {name}")
    return from_builtins(chosen, fill(data))


def _is_called(kind: Any, name: str) -> bool:
    return (typing.get_origin(kind) or kind).__name__ == name
