"""Decides by its name whether a variable holds a secret, and collects the secret values of an environment or of inputs."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import unquote

from terracrew.protocol.cloud import CloudName

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORD = re.compile(
    r"auth|cookie|creds|jwt|keys?|pass|pat|pin|private|pw|pwd|sas"
    # Words like these are also written together with others: `PGPASSWORD`, `apikey`.
    r"|\w*(credentials?|passphrase|passwd|passwords?|secrets?|tokens?)"
    r"|\w*(access|account|api|auth|encryption|master|private|secret|shared|signing|ssh)key"
)
_DESCRIBING_WORD = re.compile(
    r"algorithm|arn|audience|bits|count|days|dir|directory|enabled|endpoint|expiry|file|fingerprint|format|host|issuer|kind"
    r"|length|lifetime|method|mode|names?|path|period|policy|port|prefix|provider|region|rotation|seconds|size|sock|socket"
    r"|spec|ttl|type|uri|url|usage|user|username|vault|version"
)
"""A name with such an ending describes a secret and does not hold one: `TOKEN_TTL`, `AWS_WEB_IDENTITY_TOKEN_FILE`."""
_HOST_PREFIX = "TF_TOKEN_"
"""The rest of the name of such a variable is a host, so it may end like a word that describes a secret."""
_SHELL_NAMES = frozenset({"PWD", "OLDPWD"})
MIN_SECRET_BYTES = 6
"""Shorter values are not masked: they are ordinary words or small numbers, and a log without them could not be read."""
MAX_SECRETS = 1000
"""At most this many secrets of one environment or one set of inputs are masked. More would make each search slow."""
_MAX_LEVELS = 100
_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}://([^/?#\s\"'<>]+)@")
_ASSIGNMENT = re.compile(r"--?[a-z-]+=([A-Za-z_][\w-]*)=(.*)", re.DOTALL)
_MIN_TOKEN_CHARACTERS = 16
"""A shorter name in an address without a password is the name of a user: `ssh://git@host`."""

CLOUD_OF_KEY: dict[str, CloudName] = {
    "AWS_ACCESS_KEY_ID": "aws",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "AWS_SESSION_TOKEN": "aws",
    "ARM_CLIENT_SECRET": "azure",
    "ARM_CLIENT_CERTIFICATE": "azure",
    "GOOGLE_CREDENTIALS": "gcp",
    "GOOGLE_CLOUD_KEYFILE_JSON": "gcp",
    "GCLOUD_KEYFILE_JSON": "gcp",
    "GOOGLE_OAUTH_ACCESS_TOKEN": "gcp",
    "VAULT_TOKEN": "vault",
}


def is_secret(name: str) -> bool:
    """Return whether a variable, an input or an attribute with this name holds a secret."""
    if name in _SHELL_NAMES:
        return False
    if name.startswith(_HOST_PREFIX):
        return True
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or _DESCRIBING_WORD.fullmatch(words[-1]) or "public" in words:
        return False
    if words[-1] == "id" and len(words) > 1 and words[-2] not in ("secret", "token"):
        return False  # AWS_ACCESS_KEY_ID is printed all over; the secret id of a Vault role is a password
    return any(_SECRET_WORD.fullmatch(word) for word in words)


def secrets_of(values: Mapping[str, Any]) -> list[str]:
    """Return the values to mask among these, at any depth, each once."""
    found: dict[str, None] = {}
    level: list[tuple[bool, Any]] = [(is_secret(name), value) for name, value in values.items()]
    for _ in range(_MAX_LEVELS):
        below: list[tuple[bool, Any]] = []
        for is_hidden, value in level:
            if isinstance(value, dict):
                below += [(is_hidden or is_secret(str(name)), each) for name, each in cast("Any", value).items()]
            elif isinstance(value, list):
                below += [(is_hidden, each) for each in cast("list[Any]", value)]
            elif is_hidden and (isinstance(value, str) or _is_number(value)):
                found |= dict.fromkeys([str(value)])
            if isinstance(value, str):
                found |= dict.fromkeys(_passwords_of_address(value))
                below += [(False, each) for each in _documents_of(value)]
        if not (level := below):
            break
    return [value for value in found if len(value) >= MIN_SECRET_BYTES][:MAX_SECRETS]


def parts_of(secrets: Iterable[str]) -> list[str]:
    """Return the secrets, and the secret values inside those that are JSON documents or addresses."""
    return [part for text in secrets for part in (text, *secrets_of({"secret": text}))]


def secrets_of_flags(flags: Iterable[str]) -> list[str]:
    """Return the secret values among the arguments of a command: `-var=db_password=…`, `-backend-config=token=…`."""
    found = (_ASSIGNMENT.match(flag) for flag in flags)
    return [secret for each in found if each for secret in secrets_of({each[1]: each[2]})]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _passwords_of_address(value: str) -> Iterable[str]:
    """Yield the passwords in a value such as `postgres://user:password@host/database`, as written and decoded.

    Instead of a name and a password, an address may have a token: `https://token@host/path`.
    """
    for found in _ADDRESS.finditer(value):
        _, colon, password = found[1].partition(":")
        if not colon and len(found[1]) < _MIN_TOKEN_CHARACTERS:
            continue
        secret = password if colon else found[1]
        yield from (secret, unquote(secret))


def _documents_of(value: str) -> Iterable[Any]:
    """Return the content of a value that is a JSON object, for example a service account's key file."""
    if not value.lstrip().startswith("{"):
        return ()
    try:
        return (json.loads(value),)
    except (ValueError, RecursionError):
        return ()


_CLOUD_TITLES: dict[CloudName, str] = {"aws": "AWS", "azure": "Azure", "gcp": "Google Cloud", "vault": "Vault"}


def static_key_warning(name: str) -> str:
    """Return what to tell about an input of this name; empty if it holds no static key."""
    cloud = CLOUD_OF_KEY.get(name.upper())
    if cloud is None:
        return ""
    return (
        f"{name} is a static key of {_CLOUD_TITLES[cloud]}, which the server now stores. Jobs can log in to {_CLOUD_TITLES[cloud]} "
        "as a role without any key (--cloud, docs/cloud.md); or give the key to the runner alone, in its environment"
    )
