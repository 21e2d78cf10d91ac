"""OpenTofu, as it is registered."""

from terracrew.executor.engines.hcl.dialect import TOFU
from terracrew.executor.engines.hcl.engine import HclEngine

ENGINE = HclEngine(TOFU)
