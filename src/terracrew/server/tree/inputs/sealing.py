"""Encrypts the values of inputs. A ciphertext is bound to its place, its name and its version, so it is of no use anywhere else."""

from typing import Any

import msgspec

from terracrew.protocol.spec import Definition
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.inputs.model import FileContent, Input


def context(place_id: str, target: str, name: str, version: int) -> str:
    return f"input:{place_id}:{target}:{name}:{version}"


def sealed(keys: Keyring, place_id: str, target: str, name: str, version: int, plain: bytes) -> bytes:
    return keys.encrypt(plain, context(place_id, target, name, version))


def resealed(keys: Keyring, each: Input, value: Any) -> bytes:
    """Return another content of the same version of an input, encrypted."""
    return sealed(keys, each.place_id, each.target, each.name, each.version, msgspec.json.encode(value))


def opened(keys: Keyring, each: Input) -> Any:
    """Return the value of an input that was not removed."""
    assert each.sealed is not None
    bound_to = context(each.place_id, each.target, each.name, each.version)
    return msgspec.json.decode(keys.decrypt(bytes(each.sealed), bound_to))


def opened_file(keys: Keyring, each: Input) -> FileContent:
    """Return the content of an extra file that was not removed."""
    return msgspec.convert(opened(keys, each), FileContent)


def opened_definition(keys: Keyring, each: Input) -> Definition:
    """Return what an input says about its job."""
    return msgspec.convert(opened(keys, each)["definition"], Definition)


def text(keys: Keyring, each: Input) -> str:
    """Return the text of a secret that was not removed."""
    return opened_file(keys, each).content if each.target == "file" else str(opened(keys, each))
