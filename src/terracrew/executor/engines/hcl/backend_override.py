"""The file by which the engine keeps the state in Terracrew, and the blocks of a source that this file may replace.

A `backend` block in an override file replaces the `backend` or `cloud` block of the other files: engines do not even evaluate what
it replaces. So a source that names Terracrew as its `cloud`, or the module's own state in Terracrew as its backend `http`, because
people also run it from their own command line, needs no change to run on a runner. A block that names another place for the state
is refused: the module's state in Terracrew may not know what exists, and the plan would create everything a second time.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from terracrew.errors import Conflict, Invalid
from terracrew.executor.engines.hcl.blocks import HTTP_BACKEND, BackendBlock

OVERRIDE_FILE = "terracrew_override.tf"
SHADOWING_FILE = "terracrew_override.tofu"
"""OpenTofu does not read a file `x.tf` beside a file `x.tofu`, so the source must not have this one."""
CONTENT = b'terraform {\n  backend "http" {}\n}\n'
_REMOTE_BLOCKS = frozenset({"cloud", 'backend "remote"', "backend remote"})
_SUFFIXES = (".tofu.json", ".tf.json", ".tofu", ".tf")
_OTHER_SERVICES = frozenset({"app.terraform.io", "app.eu.terraform.io"})
"""A command line that contacts these has not uploaded a source to Terracrew."""


def check(
    blocks: Iterable[BackendBlock],
    server_hosts: frozenset[str],
    *,
    is_uploaded_for_job: bool,
    state_paths: frozenset[str] = frozenset(),
) -> None:
    """Raise an error for a block that the override file must not replace, or cannot. `state_paths`: those of the module's state here."""
    for block in blocks:
        place = f"{block.file}:{block.line} has a {block.block} block"
        is_http = block.block.replace('"', "") == HTTP_BACKEND
        if is_http and not _is_own_state(block.host, server_hosts, state_paths):
            raise _other_place(place)
        if not is_http and block.block not in _REMOTE_BLOCKS:
            raise _other_place(place)
        host = block.host.lower().rstrip(".")
        if not (is_http or host in server_hosts or (is_uploaded_for_job and host not in _OTHER_SERVICES)):
            named = f" for {block.host[:200]}" if block.host else " that names no host"
            hint = (
                ". If that is the name of this server, the runner's setting `discovery_host` must say so"
                if host
                else ""
            )
            raise _other_place(place + named, hint)
        if _is_override(block.file) and block.file > OVERRIDE_FILE:
            raise Conflict(
                f"{place}, and the engine reads this file after {OVERRIDE_FILE}, by which Terracrew holds the state: "
                "move the block to a file that is not an override"
            )


def _is_own_state(address: str, server_hosts: frozenset[str], state_paths: frozenset[str]) -> bool:
    """Return whether an address is that of the module's state in Terracrew."""
    try:
        parts = urlsplit(address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return False
    host = (parts.hostname or "").rstrip(".")
    named = host if port == 443 else f"{host}:{port}"
    return named in server_hosts and parts.path in state_paths and not parts.query


def _other_place(found: str, hint: str = "") -> Invalid:
    return Invalid(
        f"{found}, but Terracrew holds this module's state: remove the block, or set the module's backend to `own`{hint}"
    )


def _is_override(name: str) -> bool:
    stem = next(name.removesuffix(suffix) for suffix in (*_SUFFIXES, "") if name.endswith(suffix))
    return stem == "override" or stem.endswith("_override")
