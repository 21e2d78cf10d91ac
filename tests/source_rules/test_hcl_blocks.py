"""Blocks of configuration files are read without an engine, also from files that somebody made to do harm."""

import pytest

from terracrew.errors import Invalid
from terracrew.source_rules import hcl_blocks

pytestmark = pytest.mark.feature("P7.documentation")


def test_attributes_are_kept_as_they_are_written() -> None:
    (block,) = hcl_blocks.parse(
        """
/* variable "no" {} */ # variable "no" {}
variable "zones" {
  type = map(object({
    a = optional(string, "x}") // }
  }))
  default     = { eu = { a = "y ${upper("q}")} z", b = [1, 2] } } # a comment
  description = "Say \\"hi\\" to $${it}"
  validation {
    condition = length(var.zones) > 0 && can(regex("^[a-z]+$", "x")) ? true : 1 / 2 == 0
  }
}
"""
    )
    assert (block.kind, block.labels) == ("variable", ("zones",))
    assert block.attributes["type"].startswith("map(object({")
    assert block.attributes["type"].endswith("}))")
    assert block.attributes["default"] == '{ eu = { a = "y ${upper("q}")} z", b = [1, 2] } }'
    assert hcl_blocks.literal(block.attributes["description"]) == 'Say "hi" to ${it}'
    assert [each.kind for each in block.blocks] == ["validation"]


def test_blocks_of_one_line_and_several_files_endings() -> None:
    found = hcl_blocks.parse('\ufeffvariable "a" { type = string }\r\noutput b { value = 1 }\r\nlocals {}')
    assert [(each.kind, each.labels, each.attributes) for each in found] == [
        ("variable", ("a",), {"type": "string"}),
        ("output", ("b",), {"value": "1"}),
        ("locals", (), {}),
    ]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('"a\\nb\\u00e4\\U0001F600"', "a\nbä😀"),
        ("<<EOT\n  a\n    b\nEOT", "  a\n    b\n"),
        ("<<-EOT\n  a\n    b\n  EOT", "a\n  b\n"),
        ('"${a}"', None),
        ('"\\ud800"', "\ufffd"),
        ("a", None),
        ("12", None),
        ("<<EOT\n${a}\nEOT", None),
        ('""', ""),
    ],
)
def test_only_literals_are_texts(written: str, expected: str | None) -> None:
    (block,) = hcl_blocks.parse(f"x {{\n a = {written}\n}}")
    assert hcl_blocks.literal(block.attributes["a"]) == expected


def test_the_members_of_an_object() -> None:
    found = hcl_blocks.members('{ source = "a/b", "version" : ">= 1, < 2"\n aliases = [a.b, a.c] }')
    assert found == {"source": '"a/b"', "version": '">= 1, < 2"', "aliases": "[a.b, a.c]"}
    with pytest.raises(Invalid):
        hcl_blocks.members('"~> 1"')


@pytest.mark.parametrize(
    "text",
    [
        'variable "x" {',
        "a = (",
        'a = "x',
        'x "y" z',
        "a = <<EOT\nfoo",
        "}",
        "a = )",
        "a = [}]",
        "a = " + "[" * 100_000,
        'a = "${' * 50_000,
        "a = " + '"${' * 50_000,
        "x {" * 100_000,
        "a = " + "{" * 100_000,
        "/*" * 100_000 + "*/ }",
        'a = "' + '\\"' * 100_000,
        "a = <<A\n" * 50_000,
        "\0",
    ],
)
def test_what_is_no_configuration_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(Invalid, match=r"^line \d+: "):
        hcl_blocks.parse(text)
