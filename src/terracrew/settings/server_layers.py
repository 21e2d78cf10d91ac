"""Reads the layers of a server's settings: defaults, file, environment, command line, external settings. Checks those that depend on
each other.

Such checks see the merged values before each single value is checked, so that everything that is wrong is reported at once.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from terracrew.client.address import is_loopback
from terracrew.settings import files, merging
from terracrew.settings.external import layer as external_layer
from terracrew.settings.merging import Combination, Merged
from terracrew.settings.server import PREFIX, ServerSettings
from terracrew.settings.trees import Layer, Tree

_POSTGRES_SCHEMES = ("postgres://", "postgresql://")
_KEYS = ("master_key", "master_key_file")
_TOKENS = ("worker_token_sha256", "worker_token_file")


def merged(file: Path | None = None, options: Mapping[str, Any] | None = None) -> Merged[ServerSettings]:
    """Return the settings with the layer that each came from. Raises Invalid with all errors at once."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    layers = [
        merging.command_line(ServerSettings, given, {name: f"--{name.replace('_', '-')}" for name in given}),
        merging.environment_layer(ServerSettings, PREFIX, ignores_empty=True),
        files.layer(file) if file else Layer("file", {}),
    ]
    found, external = external_layer.above(ServerSettings, layers)
    made = merging.merge(ServerSettings, found, PREFIX, _check, external)
    return made._replace(settings=made.settings.read_from(file, external))


def _check(values: Tree) -> Iterator[Combination]:
    yield from _master_key(values)
    yield from _tokens(values)
    yield from _mail(values)


def _master_key(values: Tree) -> Iterator[Combination]:
    database = values.get("database_url")
    given = [name for name in _KEYS if values.get(name)]
    if len(given) > 1:
        yield Combination(("master_key",), "give the master key or the file that holds it, not both")
    if isinstance(database, str) and database.startswith(_POSTGRES_SCHEMES) and not given:
        yield Combination(
            ("master_key_file",),
            "is required with PostgreSQL, which may serve many servers, so none of them makes the key: put what "
            "`openssl rand -base64 32` prints into a file that only the server can read, and name it",
            missing=[(name,) for name in _KEYS],
        )


def _tokens(values: Tree) -> Iterator[Combination]:
    """Each remote shared runner has one token, and no other runner has it."""
    found = values.get("shared_runners")
    owners: dict[str, str] = {}
    for name, value in (cast("Tree", found) if isinstance(found, dict) else {}).items():
        runner = cast("Tree", value) if isinstance(value, dict) else {}
        count = sum(each in runner for each in _TOKENS)
        # Without a kind, a runner with a token is meant to be a remote one.
        if runner.get("kind") == "built-in" or (runner.get("kind") != "remote" and not count):
            continue
        if count != 1:
            words = f"give {' or '.join(_TOKENS)}; `terracrew server worker-token {name}` makes a token"
            yield Combination(("shared_runners", name), words)
        elif (other := owners.setdefault(_digest(runner), name)) != name:
            words = f"it has the same worker token as {other}; each needs its own"
            yield Combination(("shared_runners", name), words)


def _mail(values: Tree) -> Iterator[Combination]:
    """The password of a mail server crosses the network encrypted, or not at all."""
    host = str(values.get("smtp_host") or "")
    if values.get("smtp_user") and values.get("smtp_tls") == "none" and not is_loopback(f"smtp://{host}"):
        yield Combination(("smtp_tls",), "with `none`, the password for the mail server would be sent unencrypted")
    if values.get("smtp_password") and not values.get("smtp_user"):
        yield Combination(("smtp_user",), "is required with `smtp_password`", missing=[("smtp_user",)])


def _digest(found: Tree) -> str:
    """Return the hash of a runner's token. A file that cannot be read is reported as such elsewhere."""
    if "worker_token_sha256" in found:
        return str(found["worker_token_sha256"])
    try:
        file = Path(os.path.expanduser(str(found["worker_token_file"])))
        return hashlib.sha256(file.read_bytes().strip()).hexdigest()
    except (OSError, ValueError):
        return str(found["worker_token_file"])
