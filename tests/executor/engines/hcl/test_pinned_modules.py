"""What `init` found is used again only if `init` would find the same again."""

import json
from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.executor.engines.hcl import pinned_modules
from terracrew.source_rules import configurations

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROOT = {"Key": "", "Source": "", "Dir": "."}


def check(workspace: Path, *modules: dict[str, str], folder: str = "") -> bool:
    manifest = json.dumps({"Modules": [ROOT, *modules]}).encode()
    return pinned_modules.check(manifest, workspace / folder, workspace, configurations.PATTERNS["tofu"])


def found(key: str, source: str, place: str = "", version: str = "") -> dict[str, str]:
    return {"Key": key, "Source": source, "Dir": place or f".terraform/modules/{key}"} | (
        {"Version": version} if version else {}
    )


def test_modules_of_the_source_are_the_same_as_long_as_the_source_is(tmp_path: Path) -> None:
    assert not check(tmp_path)
    assert not check(tmp_path, found("a", "./a", "a"), found("a.b", "../b", "b"))
    assert not check(tmp_path, found("a", "../shared", "../shared"), folder="root")


def test_a_module_outside_of_the_source_may_have_changed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    for module in (
        found("a", "../a", "../a"),
        found("a", "./link", "link"),
        found("a", "/opt/a", "/opt/a"),
    ):
        with pytest.raises(Invalid):
            check(tmp_path, module)


def test_a_module_that_is_said_to_be_somewhere_else_is_refused(tmp_path: Path) -> None:
    for module in (
        found("a", "./a", "b"),
        found("a", "./a", ".terraform/modules/a"),
        found("a", f"git::https://x/y?ref={COMMIT}", "a"),
        found("a", f"git::https://x/y?ref={COMMIT}", ".terraform/modules/a/../../../b"),
        found("a", f"git::https://x/y?ref={COMMIT}", ".terraform/modules/ab"),
    ):
        with pytest.raises(Invalid):
            check(tmp_path, module)
    with pytest.raises(Invalid, match="without the one that calls it"):
        check(tmp_path, found("a.b", "./a", "a"))
    with pytest.raises(Invalid, match="root module"):
        check(tmp_path, {"Key": "", "Source": "", "Dir": "../other"})


def test_a_repository_is_pinned_by_the_whole_id_of_a_commit(tmp_path: Path) -> None:
    assert check(tmp_path, found("a", f"git::https://example.com/a.git?ref={COMMIT}"))
    assert check(
        tmp_path, found("a", f"git::ssh://git@example.com/a.git?depth=1&ref={COMMIT}", ".terraform/modules/a/sub")
    )
    for source in (
        "git::https://example.com/a.git",
        "git::https://example.com/a.git?ref=v1.0.0",
        f"git::https://example.com/a.git?ref={COMMIT[:12]}",
        f"git::https://example.com/a.git?ref=main&x={COMMIT}",
        f"git::https://example.com/a.git?ref=main&ref={COMMIT}",
        f"git::https://user:password@example.com/a.git?ref={COMMIT}",
        f"git::https://token@example.com/a.git?ref={COMMIT}",
        f"git::ssh://git:password@example.com/a.git?ref={COMMIT}",
        f"git::ssh://git@example.com/a.git?sshkey=abc&ref={COMMIT}",
        f"hg::https://example.com/a?rev={COMMIT}",
        "https://example.com/a.zip",
        "s3::https://example.com/a.zip",
    ):
        with pytest.raises(Invalid, match="not pinned"):
            check(tmp_path, found("a", source))


@pytest.mark.parametrize("version", ["1.2.3", "= 1.2.3", "=1.2.3", "1.2.3-beta.1", "v1.2.3"])
def test_a_module_of_a_registry_is_pinned_by_an_exact_version(tmp_path: Path, version: str) -> None:
    (tmp_path / "main.tf").write_text(f'module "a" {{\n  source = "x/y/z"\n  version = "{version}"\n}}\n')
    assert check(tmp_path, found("a", "registry.opentofu.org/x/y/z", version="1.2.3"))


@pytest.mark.parametrize("version", ["~> 1.2.3", ">= 1.2.3", "1.2", "1.2.3, < 2.0.0", "${var.version}", "!= 1.2.3", ""])
def test_a_range_of_versions_is_not_exact(tmp_path: Path, version: str) -> None:
    (tmp_path / "main.tf").write_text(f'module "a" {{\n  source = "x/y/z"\n  version = "{version}"\n}}\n')
    with pytest.raises(Invalid, match="one exact version"):
        check(tmp_path, found("a", "registry.opentofu.org/x/y/z", version="1.2.3"))


@pytest.mark.parametrize(
    "text",
    [
        'module "a" { source = "x/y/z" }\nmodule "b" {\n  version = "1.2.3"\n}',
        'module "a" {\n  source = "x/y/z"\n  inputs = {\n    version = "1.2.3"\n  }\n}',
        'module "a" {\n  version = var.version\n  name = "1.2.3"\n}',
        'resource "module" "a" {\n  version = "1.2.3"\n}',
        '# module "a" { version = "1.2.3" }',
        'module "a" { version = "1.2.3" }\nmodule "a" { version = "~> 1.0" }',
    ],
)
def test_a_version_of_something_else_does_not_count(tmp_path: Path, text: str) -> None:
    (tmp_path / "main.tf").write_text(text)
    with pytest.raises(Invalid, match="one exact version"):
        check(tmp_path, found("a", "registry.opentofu.org/x/y/z", version="1.2.3"))


def test_the_version_is_read_where_the_module_is_called(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "main.tf").write_text('module "below" { source = "./below" }\n')
    call = {"module": {"a": [{"source": "x/y/z", "version": "1.2.3"}]}}
    (tmp_path / "below" / "main.tf.json").write_text(json.dumps(call))
    below = found("below", "./below", "below")
    assert check(tmp_path, below, found("below.a", "registry.opentofu.org/x/y/z", version="1.2.3"))
    (tmp_path / "below" / "main_override.tf").write_text('module "a" { version = "~> 1.2" }\n')
    with pytest.raises(Invalid, match="one exact version"):
        check(tmp_path, below, found("below.a", "registry.opentofu.org/x/y/z", version="1.2.3"))


@pytest.mark.parametrize("manifest", [b"", b"{}", b"[" * 10_000, b'{"Modules": [{"Key": 3}]}'])
def test_a_list_of_modules_that_cannot_be_read_is_refused(tmp_path: Path, manifest: bytes) -> None:
    with pytest.raises(Invalid):
        pinned_modules.check(manifest, tmp_path, tmp_path, configurations.PATTERNS["tofu"])
