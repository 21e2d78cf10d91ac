"""Terracrew: a control plane and a crew of runners for Terraform, OpenTofu and Pulumi."""

__version__ = "0.1.0"
