"""Takes resources out of a state that were destroyed already, so that the engine imports what was created in their place.

An engine ignores the import block of a resource whose address is in the state, even if it finds that the resource is gone: it
would then create one more.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from terracrew.engine_rules import import_blocks


class _KeptAttributes(msgspec.Struct):
    id: Any = None


class _KeptInstance(msgspec.Struct):
    index_key: str | int | None = None
    deposed: str = ""
    attributes: _KeptAttributes | None = None


class _KeptResource(msgspec.Struct):
    mode: str
    type: str
    name: str
    module: str = ""
    instances: list[msgspec.Raw] = []


_state = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_resource = msgspec.json.Decoder(_KeptResource)
_instance = msgspec.json.Decoder(_KeptInstance)


def without(state: bytes, destroyed: Mapping[str, str]) -> bytes:
    """Return the state without these resources (address → id). Everything else in it stays as it is, byte by byte.

    A state in another format, such as one that the engine has encrypted, is returned unchanged.
    """
    try:
        document = _state.decode(state)
        resources = [_without(each, destroyed) for each in _raws.decode(document["resources"])]
    except (msgspec.MsgspecError, KeyError):
        return state
    document["resources"] = msgspec.Raw(msgspec.json.encode([each for each in resources if each is not None]))
    return msgspec.json.encode(document)


def _without(raw: msgspec.Raw, destroyed: Mapping[str, str]) -> msgspec.Raw | None:
    """Return a resource without its instances that were destroyed; None if there is no other one."""
    resource = _resource.decode(raw)
    kept = [each for each in resource.instances if not _is_destroyed(resource, _instance.decode(each), destroyed)]
    if len(kept) == len(resource.instances):
        return raw
    if not kept:
        return None
    fields = _state.decode(raw)
    fields["instances"] = msgspec.Raw(msgspec.json.encode(kept))
    return msgspec.Raw(msgspec.json.encode(fields))


def _is_destroyed(resource: _KeptResource, instance: _KeptInstance, destroyed: Mapping[str, str]) -> bool:
    if resource.mode != "managed" or instance.deposed:
        return False
    address = import_blocks.instance_address(resource.module, resource.type, resource.name, instance.index_key)
    return (
        address in destroyed and instance.attributes is not None and str(instance.attributes.id) == destroyed[address]
    )
