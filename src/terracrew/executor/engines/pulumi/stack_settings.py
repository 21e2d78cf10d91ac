"""Writes the inputs of a module into the settings of its stack, the file `Pulumi.<stack>.yaml`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines.pulumi import project
from terracrew.executor.engines.pulumi.passphrase import PassphraseCipher

_SALT = "encryptionsalt"
_OTHER_PROVIDERS = ("secretsprovider", "encryptedkey")


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
