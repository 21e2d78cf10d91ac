"""What is read from the files of a Pulumi project, and how the inputs come into the settings of its stack."""

from pathlib import Path

import pytest
import yaml

from terracrew.errors import Invalid
from terracrew.executor.engines.pulumi import project, stack_settings

pytestmark = pytest.mark.feature("J4.pulumi")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no usable name"),
        ("runtime: yaml", "no usable name"),
        ("name: [a]", "no usable name"),
        ("name: ../../etc", "no usable name"),
        ("name: ..", "no usable name"),
        ("- a\n- b", "is not a mapping"),
        ("name: {a: [", "cannot be read"),
        ("name: !!python/object/apply:os.system ['true']", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("name: x\n#" + "x" * (1 << 20), "has more than 1,048,576 bytes"),
    ],
)
def test_a_project_that_is_wrong_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text(text)
    with pytest.raises(Invalid, match=problem):
        project.project_name(tmp_path)


def test_a_project_file_that_leads_out_of_the_source_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("name: secret")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "Pulumi.yaml").symlink_to(tmp_path / "secret")
    with pytest.raises(Invalid, match="cannot be read"):
        project.project_name(tmp_path / "source")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a\n", "--yes", "x" * 101, "é"])
def test_a_name_that_is_not_one_of_a_stack_is_refused(name: str) -> None:
    if name == "--yes":
        assert project.checked_stack(name, is_qualified=False) == name  # it is passed as `--stack=--yes`, one argument
        return
    with pytest.raises(Invalid, match="is not the name of a stack"):
        project.checked_stack(name, is_qualified=False)


def test_a_backend_of_its_own_may_want_an_organization_before_the_stack() -> None:
    assert project.checked_stack("acme/shop/prod", is_qualified=True) == "acme/shop/prod"
    with pytest.raises(Invalid):
        project.checked_stack("a/b/c/d", is_qualified=True)


@pytest.mark.feature("J6.inputs")
def test_inputs_take_precedence_over_the_settings_of_the_source(tmp_path: Path) -> None:
    settings = {"encryptionsalt": "v1:x", "config": {"shop:size": "small", "aws:region": "eu-west-1"}}
    (tmp_path / "Pulumi.prod.yaml").write_text(yaml.safe_dump(settings))
    inputs = {"size": "large: ${not.a.reference}", "zones": ["a", {"b": 1}], "is_open": True}
    stack_settings.write(tmp_path, "shop", "prod", inputs)
    written = yaml.safe_load((tmp_path / "Pulumi.prod.yaml").read_text())
    assert written == {
        "encryptionsalt": "v1:x",
        "config": {
            "aws:region": "eu-west-1",
            "shop:size": "large: ${not.a.reference}",
            "shop:zones": ["a", {"b": 1}],
            "shop:is_open": True,
        },
    }
    assert (tmp_path / "Pulumi.prod.yaml").stat().st_mode & 0o077 == 0


def test_without_inputs_the_source_stays_as_it_is(tmp_path: Path) -> None:
    stack_settings.write(tmp_path, "shop", "prod", {})
    assert list(tmp_path.iterdir()) == []
