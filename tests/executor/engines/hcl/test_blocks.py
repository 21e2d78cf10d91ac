"""Finding a backend or cloud block without being fooled by comments, strings and heredocs."""

from pathlib import Path

import pytest

from terracrew.executor.engines.hcl import blocks
from terracrew.source_rules.configurations import PATTERNS

PLAIN = "main.tf"


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize(
    ("text", "line", "block"),
    [
        ('terraform {\n  backend "s3" {\n    bucket = "b"\n  }\n}\n', 2, 'backend "s3"'),
        ("terraform {\n  cloud {\n  }\n}\n", 2, "cloud"),
        ("terraform { backend s3 {} }", 1, "backend s3"),
        ('/* backend */ # cloud\nterraform\n{\n// x\nbackend "http" {}}', 5, 'backend "http"'),
        ('locals {\n  a = "${"}"}"\n}\nterraform {\n  cloud {}\n}', 5, "cloud"),
        ('locals {\n  a = <<-EOT\n    }}} "\n  EOT\n}\nterraform {\n  cloud {}\n}', 7, "cloud"),
        (
            'terraform {\n  required_version = ">= 1.0"\n  required_providers {\n    a = { source = "x/y" }\n  }\n'
            '  backend "gcs" {}\n}',
            6,
            'backend "gcs"',
        ),
    ],
)
def test_a_backend_or_cloud_block_is_found_with_its_line(tmp_path: Path, text: str, line: int, block: str) -> None:
    (tmp_path / PLAIN).write_text(text)
    assert list(blocks.backend_blocks(tmp_path, PATTERNS["tofu"])) == [(PLAIN, line, block, "")]


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize(
    "text",
    [
        '# terraform { backend "s3" {} }',
        '// terraform { backend "s3" {} }\n',
        '/* terraform {\n backend "s3" {}\n} */',
        'locals {\n  a = "terraform { backend \\"s3\\" {} }"\n}',
        'locals {\n  a = <<EOT\nterraform {\n  backend "s3" {}\n}\nEOT\n}',
        "locals {\n  a = <<-EOT\n    terraform {\n      cloud {}\n    }\n    EOT\n}",
        'variable "backend" {}\nresource "cloud" "backend" {\n  backend "s3" {}\n  cloud {}\n}',
        'terraform {\n  provider_meta "cloud" {}\n}\nlocals { cloud = "backend" }',
        'terraform {\n  required_providers {\n    cloud = { source = "backend" }\n  }\n}',
        'locals {\n  a = "${"${"terraform { cloud {} }"}"}"\n}',
        'locals {\n  a = "unfinished backend\n}',
    ],
)
def test_what_only_looks_like_one_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / PLAIN).write_text(text)
    assert not list(blocks.backend_blocks(tmp_path, PATTERNS["tofu"]))


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize(
    ("text", "block"),
    [
        ('{"terraform": {"backend": {"s3": {}}}}', 'backend "s3"'),
        ('{"terraform": [{"required_version": "1"}, {"backend": [{"gcs": {}}]}]}', 'backend "gcs"'),
        ('[{"terraform": {"cloud": {}}}]', "cloud"),
    ],
)
def test_a_block_in_json_is_found(tmp_path: Path, text: str, block: str) -> None:
    (tmp_path / "main.tf.json").write_text(text)
    [found] = blocks.backend_blocks(tmp_path, PATTERNS["tofu"])
    assert found.block == block


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize(
    ("file", "text", "hosts"),
    [
        (PLAIN, 'terraform {\n  cloud {\n    hostname = "Crew.example:8443"\n  }\n}', ["Crew.example:8443"]),
        (PLAIN, 'terraform {\n  cloud {\n    hostname = "a${var.b}"\n  }\n}', [""]),
        (PLAIN, 'terraform {\n  cloud {\n    hostname = lower("A")\n  }\n}', [""]),
        (PLAIN, 'terraform {\n  cloud {\n    workspaces { hostname = "a" }\n  }\n}', [""]),
        (PLAIN, 'terraform {\n  cloud {\n    # hostname = "a"\n    organization = "hostname"\n  }\n}', [""]),
        (PLAIN, 'terraform {\n  cloud {\n    hostname = "a"\n  }\n  backend "s3" {}\n}', ["a", ""]),
        ("main.tf.json", '{"terraform": {"backend": {"remote": {"hostname": "a"}}}}', ["a"]),
        ("main.tf.json", '{"terraform": [{"cloud": [{"hostname": "a"}]}, {"cloud": {"hostname": "${b}"}}]}', ["a", ""]),
        ("main.tf.json", '{"terraform": {"backend": {"remote": [{"hostname": "a"}, {}]}}}', [""]),
    ],
)
def test_the_host_of_a_block_is_found_if_it_is_a_plain_string(
    tmp_path: Path, file: str, text: str, hosts: list[str]
) -> None:
    (tmp_path / file).write_text(text)
    assert [each.host for each in blocks.backend_blocks(tmp_path, PATTERNS["tofu"])] == hosts


def test_only_the_root_modules_own_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / PLAIN).write_text("terraform {\n  cloud {}\n}\n")
    (tmp_path / "notes.txt").write_text("terraform {\n  cloud {}\n}\n")
    (tmp_path / "broken.tf.json").write_text('{"terraform": "backend"')
    assert not list(blocks.backend_blocks(tmp_path, PATTERNS["tofu"]))


@pytest.mark.feature("J15.imported")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('terraform {\n  backend "s3" {\n    bucket = "a"\n  }\n}\nlocals {}\n', "terraform {\n  \n}\nlocals {}\n"),
        ('terraform {\n  cloud {\n    workspaces { name = "a" }\n  }\n}\n', "terraform {\n  \n}\n"),
        (
            'terraform {\n  required_version = ">= 1.5"\n  backend "gcs" { prefix = "}" }\n  required_providers {}\n}\n',
            'terraform {\n  required_version = ">= 1.5"\n  \n  required_providers {}\n}\n',
        ),
        ('resource "a" "b" {\n  backend "s3" {}\n}\n', 'resource "a" "b" {\n  backend "s3" {}\n}\n'),
        ('# terraform { backend "s3" {} }\nlocals { a = "backend" }\n', None),
        ('terraform {\n  backend "s3" {\n', None),
        (
            '{"terraform": [{"backend": {"s3": {}}, "required_version": "1"}]}',
            '{"terraform":[{"required_version":"1"}]}',
        ),
        ('{"terraform": {"cloud": {}}}', '{"terraform":{}}'),
        ("{broken", None),
    ],
)
def test_the_block_is_left_out_and_nothing_else_changes(before: str, after: str | None) -> None:
    is_json = before.startswith("{")
    assert blocks.without_backend(before, is_json=is_json) == (before if after is None else after)
