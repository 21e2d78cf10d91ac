"""Fetches modules of registries (the module registry protocol of Terraform and OpenTofu)."""
