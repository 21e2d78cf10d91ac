"""Decides whether `.terraform/terraform.tfstate` may be kept. It is not a state: it is the configuration of the backend.

An engine writes into it what the configuration and the flags say about the backend, also credentials. What it takes from the
environment is not in it. So it is kept only if everything in it says where the state is, and nothing says how to get there.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from terracrew.errors import Invalid

_LOCATIONS: Mapping[str, frozenset[str]] = {
    "azurerm": frozenset(
        {
            "container_name",
            "environment",
            "key",
            "resource_group_name",
            "storage_account_name",
            "subscription_id",
            "tenant_id",
            "use_azuread_auth",
            "use_cli",
            "use_msi",
            "use_oidc",
        }
    ),
    "gcs": frozenset({"bucket", "prefix"}),
    "local": frozenset({"path", "workspace_dir"}),
    "s3": frozenset(
        {
            "acl",
            "bucket",
            "dynamodb_table",
            "encrypt",
            "key",
            "kms_key_id",
            "profile",
            "region",
            "use_lockfile",
            "use_path_style",
            "workspace_key_prefix",
        }
    ),
}
"""The attributes of each kind of backend that only say where the state is."""


class _Backend(msgspec.Struct):
    type: str
    config: dict[str, Any] | None = None


class _Configuration(msgspec.Struct):
    backend: _Backend | None = None
    version: int = 0


_decode = msgspec.json.Decoder(_Configuration).decode


def check(content: bytes, *, has_our_backend: bool) -> None:
    """Raise Invalid if the configuration of a backend has anything in it that may be a credential."""
    try:
        backend = _decode(content).backend
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the configuration of the backend cannot be read: {error}") from error
    if backend is None:
        raise Invalid("the configuration of the backend is empty")
    if has_our_backend and backend.type != "http":
        raise Invalid(f"the backend is {backend.type}, and not that of Terracrew")
    known = frozenset[str]() if has_our_backend else _LOCATIONS.get(backend.type, frozenset())
    given = {name for name, value in (backend.config or {}).items() if value is not None and value != ""}
    if unknown := sorted(given - known):
        raise Invalid(f"the configuration of the backend {backend.type} has {', '.join(unknown)}")
    if not has_our_backend and backend.type not in _LOCATIONS:
        raise Invalid(f"what the backend {backend.type} writes into the workspace is not kept")
