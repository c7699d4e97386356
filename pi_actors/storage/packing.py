"""States of folds as bytes and back: structs as msgspec packs them, and the maps in them.

Not for events: what is packed here is read again by the same version of its fold, or by nobody.
"""

from types import GenericAlias
from typing import Any, Final, Generic, TypeVar, cast, get_args, get_origin

import immutables
import msgspec

T = TypeVar("T")

_NONE: Final[immutables.Map[Any, Any]] = immutables.Map()


def pack(value: object) -> bytes:
    """*value* as bytes. It consists of structs, tuples, maps, text, bytes, numbers and JSON."""
    return _ENCODER.encode(value)


class Unpacker(Generic[T]):
    """Makes values of one type of bytes, equal to those that were packed."""

    def __init__(self, wanted: type[T]) -> None:
        self._decoder = msgspec.msgpack.Decoder(wanted, dec_hook=_mapped)

    def __call__(self, packed: bytes | msgspec.Raw) -> T:
        """The value. Raises msgspec.MsgspecError where *packed* is none of this type."""
        return self._decoder.decode(packed)


def _plain(value: object) -> dict[object, object]:
    if isinstance(value, immutables.Map):
        return dict(cast("immutables.Map[object, object]", value))
    raise NotImplementedError(f"a state holds {value!r}, which is neither a struct nor a map")


def _mapped(wanted: Any, plain: Any) -> Any:
    """The codec's boundary: *wanted* is a map's type with what its keys and values are."""
    if get_origin(wanted) is not immutables.Map:
        raise NotImplementedError(f"a state holds {wanted}, which is neither a struct nor a map")
    if not plain:
        return _NONE
    return immutables.Map(msgspec.convert(plain, GenericAlias(dict, get_args(wanted)), dec_hook=_mapped))


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
