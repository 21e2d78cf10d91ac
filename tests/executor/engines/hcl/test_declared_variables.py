"""The variables that a module declares are found without the engine."""

from pathlib import Path

import pytest

from terracrew.executor.engines.hcl.blocks import declared_variables
from terracrew.source_rules import configurations


@pytest.mark.feature("J6.inputs")
def test_every_way_to_declare_a_variable_is_found(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(
        """
        # variable "in_a_comment" {}
        variable "plain" {}
        variable unquoted { type = object({ variable = string }) }
        variable "with_default" {
          default = { variable = "nested" }
          validation {
            condition     = var.with_default != null
            error_message = "variable \\"quoted\\" {"
          }
        }
        locals { text = <<-EOT
          variable "in_a_heredoc" {}
        EOT
        }
        """
    )
    (tmp_path / "more.tf.json").write_text('{"variable": {"json": {}, "other": {"type": "string"}}}')
    (tmp_path / "broken.tf.json").write_text('{"variable": ')
    (tmp_path / "notes.txt").write_text('variable "elsewhere" {}')
    (tmp_path / "folder.tf").mkdir()
    found = declared_variables(tmp_path, configurations.PATTERNS["tofu"])
    assert found == {"plain", "unquoted", "with_default", "json", "other"}
