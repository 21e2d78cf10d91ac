"""Terracrew: a control plane and a crew of runners for Terraform, OpenTofu and Pulumi."""

__version__ = "0.1.0-rc.1"
"""The only place of the version (docs/releasing.md). Packages of Python write it `0.1.0rc1`."""
