"""Terracrew: a control plane and a crew of runners for Terraform, OpenTofu and Pulumi."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from terracrew.client.terracrew import Terracrew as Terracrew

__version__ = "0.1.0"
"""The only place of the version (docs/releasing.md). Packages of Python write `0.2.0-rc.1` as `0.2.0rc1`."""


def __getattr__(name: str) -> Any:
    """Import the Python client when it is used: the other processes do not need it."""
    if name == "Terracrew":
        from terracrew.client.terracrew import Terracrew

        return Terracrew
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
