"""The type of protocols that a class may have in addition, such as those of the contract of engines."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abc import ABCMeta as ProtocolType
else:
    from typing import Protocol

    ProtocolType = type(Protocol)

_known: dict[tuple[type, type], bool] = {}


class AbilityType(ProtocolType):
    """Remembers which classes have an ability. Python 3.11 compares all attributes of an object with those of the protocol for
    each `isinstance`, which takes 50 µs, and the answer is the same for all objects of a class."""

    def __instancecheck__(self, instance: object) -> bool:
        kind = type(instance)
        answer = _known.get((self, kind))
        if answer is None:
            answer = _known[self, kind] = super().__instancecheck__(instance)
        return answer
