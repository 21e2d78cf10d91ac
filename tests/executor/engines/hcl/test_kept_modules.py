"""What `init` found is used again only if `init` would find the same again."""

import json
from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.executor.engines.hcl import kept_init

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROOT = {"Key": "", "Source": "", "Dir": "."}


def check(workspace: Path, *modules: dict[str, str], folder: str = "") -> None:
    manifest = json.dumps({"Modules": [ROOT, *modules]}).encode()
    kept_init.check_modules(manifest, workspace / folder, workspace)


def found(key: str, source: str, place: str = "", version: str = "") -> dict[str, str]:
    return {"Key": key, "Source": source, "Dir": place or f".terraform/modules/{key}"} | (
        {"Version": version} if version else {}
    )


def test_modules_of_the_source_are_the_same_as_long_as_the_source_is(tmp_path: Path) -> None:
    check(tmp_path)
    check(tmp_path, found("a", "./a", "a"), found("a.b", "../b", "b"))
    check(tmp_path, found("a", "../shared", "../shared"), folder="root")


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


@pytest.mark.parametrize(
    ("source", "version"),
    [("registry.opentofu.org/x/y/z", "1.2.3"), (f"git::https://x/y?ref={COMMIT}", ""), ("https://x/a.zip", "")],
)
def test_a_module_that_was_downloaded_is_not_kept(tmp_path: Path, source: str, version: str) -> None:
    with pytest.raises(Invalid, match="the module a is not a folder of the source"):
        check(tmp_path, found("a", source, version=version))


@pytest.mark.parametrize("manifest", [b"", b"{}", b"[" * 10_000, b'{"Modules": [{"Key": 3}]}'])
def test_a_list_of_modules_that_cannot_be_read_is_refused(tmp_path: Path, manifest: bytes) -> None:
    with pytest.raises(Invalid):
        kept_init.check_modules(manifest, tmp_path, tmp_path)
