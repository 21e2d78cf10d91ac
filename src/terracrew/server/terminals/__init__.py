"""Runs that people start with the command line of an engine: `tofu plan` and `terraform apply` with a `cloud` block."""
