"""Terraform, as it is registered."""

from terracrew.executor.engines.hcl.dialect import TERRAFORM
from terracrew.executor.engines.hcl.engine import HclEngine

ENGINE = HclEngine(TERRAFORM)
