"""What `terracrew adopt` finds in a folder."""

from pathlib import Path

import pytest

from terracrew.cli.commands import adopt

pytestmark = pytest.mark.feature("J15.imported")


@pytest.mark.parametrize(
    ("locked", "engine"),
    [
        ('provider "registry.opentofu.org/hashicorp/random" {\n', "tofu"),
        ('provider "registry.terraform.io/hashicorp/random" {\n', "terraform"),
        ("", "tofu"),
        (None, "tofu"),
    ],
)
def test_the_lock_file_tells_which_engine_ran_a_configuration(tmp_path: Path, locked: str | None, engine: str) -> None:
    if locked is not None:
        (tmp_path / ".terraform.lock.hcl").write_text(locked)
    assert adopt.engine_of(tmp_path) == engine


def test_the_copy_has_everything_but_the_backend_and_the_folder_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "live" / "prod"
    folder.mkdir(parents=True)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "main.tf").write_text('terraform {\n  backend "s3" {}\n}\n')
    (folder / ".terraform").mkdir()
    (folder / "main.tf").write_text('terraform {\n  backend "s3" {}\n}\nlocals {}\n')
    (folder / "other.tf").write_text("locals {}\n")
    with adopt.without_backend(tmp_path, folder, "tofu") as (copy, changed):
        assert changed == ["main.tf"]
        assert (copy / "live/prod/main.tf").read_text() == "terraform {\n  \n}\nlocals {}\n"
        assert (copy / "modules/main.tf").read_text() == (tmp_path / "modules/main.tf").read_text()
        assert not (copy / "live/prod/.terraform").exists()
    assert "backend" in (folder / "main.tf").read_text()
    assert not copy.exists()
