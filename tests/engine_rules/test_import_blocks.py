"""Import blocks are written from what a log says, and a log can say anything."""

import time

import pytest

from terracrew.engine_rules import import_blocks
from terracrew.protocol.spec import ImportedResource


@pytest.mark.parametrize(
    "address",
    [
        "aws_vpc.main",
        "aws_vpc.main[12]",
        'module.net["eu"].module.deep[0].aws_vpc.main-1["a b"]',
        r'testing_file.each["c $${d} %%{e} é\n \"quoted\" \\"]',
        r'a.b["$$${"]',
    ],
)
def test_an_address_of_a_resource_is_kept_as_the_engine_writes_it(address: str) -> None:
    assert import_blocks.checked_address(address) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "aws_vpc",
        "data.aws_vpc.main",
        "a.b }\nresource",
        "a.b\n",
        'a.b["${file("/etc/passwd")}"]',
        'a.b["%{if true}x"]',
        r'a.b["\q"]',
        r'a.b["\U00ffffff"]',
        "a.b[-1]",
        "a.b[each.key]",
        "a.b[0][1]",
        "module.a.b",
        'a.b["x" }',
        "a." + "b" * 5000,
    ],
)
def test_what_is_not_the_address_of_a_resource_does_not_become_one(text: str) -> None:
    assert import_blocks.checked_address(text) == ""


def test_a_line_feed_in_a_key_is_written_as_an_escape() -> None:
    assert import_blocks.checked_address('a.b["x\ny"]') == r'a.b["x\ny"]'


@pytest.mark.parametrize(
    ("id_", "written"),
    [
        ("vpc-1", '"vpc-1"'),
        ('x"\n}\nresource "a" "b" {', r'"x\"\n}\nresource \"a\" \"b\" {"'),
        ('${file("/etc/passwd")}', r'"$${file(\"/etc/passwd\")}"'),
        ("$${x}", '"$$${x}"'),
        ("%{ if true }", '"%%{ if true }"'),
        ("back\\slash\t\u2028\x07", '"back\\\\slash\\t\\u2028\\u0007"'),
    ],
)
def test_an_id_becomes_a_string_without_expressions(id_: str, written: str) -> None:
    """OpenTofu 1.12.6 and Terraform 1.5.7 read each of these strings back as the id."""
    assert import_blocks.block(ImportedResource("a.b", id_)) == f"import {{\n  to = a.b\n  id = {written}\n}}\n"


@pytest.mark.parametrize("text", ["module." * 500, 'a.b["' + "\\" * 4000, "a." * 2000, 'module.a["' + '"]["' * 1000])
def test_a_hostile_address_is_refused_in_bounded_time(text: str) -> None:
    start = time.process_time()
    assert import_blocks.checked_address(text[:4096]) == ""
    assert time.process_time() - start < 0.5
