"""Writes the inputs of a module into the settings of its stack, the file `Pulumi.<stack>.yaml`, secret ones encrypted."""

import base64
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from terracrew.errors import Invalid
from terracrew.executor.engines.pulumi import project

_SALT = "encryptionsalt"
_OTHER_PROVIDERS = ("secretsprovider", "encryptedkey")


_HASH_COUNT = 1_000_000
"""How often Pulumi hashes a passphrase to make a key of it."""
_KEY_BYTES = 32
_SALT_BYTES = 8
_NONCE_BYTES = 12
_CHECK = "pulumi"
"""The text that Pulumi decrypts to find out whether a passphrase is right."""


def file_of(folder: Path, stack: str) -> Path:
    return folder / f"Pulumi.{stack.rpartition('/')[2]}.yaml"


def write(folder: Path, project_name: str, stack: str, inputs: Mapping[str, object]) -> None:
    """Add the inputs to the settings that the source may have for this stack. An input takes precedence over them."""
    if inputs:
        _add(file_of(folder, stack), project_name, inputs, {})


class StackPassphrase(NamedTuple):
    text: str
    is_random: bool
    """Whether it is a key that the server made, and not one that a person chose."""


def write_secrets(
    folder: Path, project_name: str, stack: str, inputs: Mapping[str, object], passphrase: StackPassphrase | None
) -> None:
    """Add inputs that are secret, encrypted with the passphrase of the stack.

    Settings that name another provider of encryption, or a passphrase that is not known here, leave no way to encrypt them.
    """
    path = file_of(folder, stack)
    settings = project.read(path) if path.exists() else {}
    if passphrase is None or any(settings.get(name) for name in _OTHER_PROVIDERS):
        _add(path, project_name, inputs, {})
        return
    cipher = PassphraseCipher(passphrase.text, str(settings.get(_SALT) or ""), is_random=passphrase.is_random)
    sealed = {name: {"secure": cipher.encrypt(_text(value))} for name, value in inputs.items()}
    _add(path, project_name, sealed, {_SALT: cipher.settings_salt})


def _text(value: object) -> str:
    """Return a value as `pulumi config set` takes it. What is not a string is JSON, which Pulumi reads by the type it expects."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _add(path: Path, project_name: str, inputs: Mapping[str, object], others: Mapping[str, str]) -> None:
    settings = project.read(path) if path.exists() else {}
    config: Any = settings.get("config") or {}
    if not isinstance(config, dict):
        raise Invalid(f"`config` in {path.name} is not a mapping")
    settings["config"] = {**config, **{f"{project_name}:{name}": value for name, value in inputs.items()}}
    path.unlink(missing_ok=True)  # it may be shared with a cache
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(msgspec.json.encode({**settings, **others}))  # JSON is YAML, too


class PassphraseCipher:
    """The key that a passphrase and a salt make.

    The salt is that of the settings, if they have one. Otherwise that of a random passphrase is derived from it, so that it is the
    same for all jobs of a module, and Pulumi makes one key for its settings and its state. What is derived from a passphrase
    that a person chose would help to guess it, so its salt is random.
    """

    def __init__(self, passphrase: str, settings_salt: str = "", *, is_random: bool) -> None:
        def some(use: str, size: int) -> bytes:
            return _derived(passphrase, use, size) if is_random else os.urandom(size)

        salt = _salt(settings_salt) or some("salt", _SALT_BYTES)
        self._key = hashlib.pbkdf2_hmac("sha256", passphrase.encode(), salt, _HASH_COUNT, _KEY_BYTES)
        nonce = some("check", _NONCE_BYTES)  # if it is derived, it is always used with the same text
        self.settings_salt = settings_salt or f"v1:{base64.b64encode(salt).decode()}:{self._sealed(_CHECK, nonce)}"

    def encrypt(self, text: str) -> str:
        return self._sealed(text, os.urandom(_NONCE_BYTES))

    def _sealed(self, text: str, nonce: bytes) -> str:
        sealed = AESGCM(self._key).encrypt(nonce, text.encode(), None)
        return f"v1:{base64.b64encode(nonce).decode()}:{base64.b64encode(sealed).decode()}"


def _salt(settings_salt: str) -> bytes:
    """Return the salt in the `encryptionsalt` of settings; nothing if there is none that Pulumi could read."""
    parts = settings_salt.split(":", 2)
    try:
        return base64.b64decode(parts[1], validate=True) if len(parts) == 3 and parts[0] == "v1" else b""
    except ValueError:
        return b""


def _derived(passphrase: str, use: str, size: int) -> bytes:
    return hashlib.sha256(f"terracrew:{use}:{passphrase}".encode()).digest()[:size]
