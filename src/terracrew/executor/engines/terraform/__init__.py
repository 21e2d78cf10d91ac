"""The Terraform engine."""
