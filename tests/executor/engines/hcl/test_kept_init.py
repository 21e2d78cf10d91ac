"""What of a workspace is kept after `init`, and how it is removed from one that the module may have changed meanwhile."""

import os
from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.executor.engines.hcl import dialect, kept_init, lockfile, plugins
from terracrew.executor.engines.hcl.dialect import TOFU
from terracrew.executor.engines.hcl.lockfile import Provider
from terracrew.executor.engines.hcl.plugins import Plugins


def test_what_was_placed_is_removed(tmp_path: Path) -> None:
    (tmp_path / "root" / ".terraform" / "modules").mkdir(parents=True)
    (tmp_path / "root" / ".terraform" / "modules" / "modules.json").write_text("{}")
    for _ in range(2):  # it may be gone already
        kept_init.remove(tmp_path / "root", tmp_path, b"")
        assert os.listdir(tmp_path / "root") == []


@pytest.mark.timeout(20)
@pytest.mark.feature("J3.warm")
def test_no_pipe_in_the_home_of_jobs_is_waited_for(tmp_path: Path) -> None:
    """A job can leave one there, and nobody writes to it: every later job would wait for ever."""
    (tmp_path / ".config" / "opentofu").mkdir(parents=True)
    (tmp_path / "dotfiles").write_text("linked")
    (tmp_path / ".config" / "opentofu" / "linked.tfrc").symlink_to(tmp_path / "dotfiles")
    for name in (".tofurc", ".config/opentofu/more.tfrc"):
        os.mkfifo(tmp_path / name)
    environment = {"HOME": str(tmp_path)}
    assert kept_init.configurations(TOFU, environment)[-3:] == ["linked.tfrc", b"linked", "more.tfrc"]
    assert dialect.find_operator_paths(TOFU, environment)


@pytest.mark.feature("J3.warm")
@pytest.mark.parametrize(
    "name", ["home/.terraform.d/a.tfrc", "home/.config/opentofu/b.tfrc.json", "xdg/opentofu/c.tfrc"]
)
def test_every_configuration_file_of_the_program_counts(tmp_path: Path, name: str) -> None:
    environment = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    without = kept_init.configurations(TOFU, environment)
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("disable_checkpoint = true\n")
    first = kept_init.configurations(TOFU, environment)
    (tmp_path / name).write_text("disable_checkpoint = false\n")
    assert without != first != kept_init.configurations(TOFU, environment) != without


@pytest.mark.timeout(20)
def test_a_package_with_a_pipe_in_it_is_not_used(tmp_path: Path) -> None:
    provider = Provider("registry.opentofu.org/terracrew/fake", "1.2.3")
    package = tmp_path / "operators" / provider.folder / plugins.platform()
    package.mkdir(parents=True)
    os.mkfifo(package / "terraform-provider-fake")
    (tmp_path / lockfile.NAME).write_text(
        f'provider "{provider.address}" {{\n  version = "{provider.version}"\n  hashes = ["h1:abc"]\n}}\n'
    )
    Plugins(tmp_path / "private", tmp_path / "shared", tmp_path / "operators").provide(tmp_path)
    assert not (tmp_path / "private").exists()


@pytest.mark.parametrize(
    "arguments",
    ["-upgrade", "-backend-config=/etc/s3.hcl", "-backend-config /etc/s3.hcl", "-no-color -plugin-dir ../plugins"],
)
def test_init_runs_in_every_job_if_the_runner_adds_a_flag_with_a_path_outside_the_source(
    tmp_path: Path, arguments: str
) -> None:
    """What is in such a file can change without the job."""
    flag = next(each for each in ("-upgrade", "-backend-config", "-plugin-dir") if each in arguments)
    with pytest.raises(Invalid, match=f"init has the flag {flag}$"):
        kept_init.check(tmp_path, ["*.tf"], [], {"TF_CLI_ARGS_init": arguments})


@pytest.mark.parametrize("arguments", ["-backend-config s3.hcl", "-backend-config key=/network", "-lock-timeout 5s"])
def test_flags_with_other_values_are_compared_by_what_they_say(tmp_path: Path, arguments: str) -> None:
    kept_init.check(tmp_path, ["*.tf"], [], {"TF_CLI_ARGS_init": arguments})


@pytest.mark.parametrize("swapped", ["environments", "environments/production", "environments/production/.terraform"])
def test_no_link_of_the_module_leads_out_of_its_workspace(tmp_path: Path, swapped: str) -> None:
    """The executor may have more rights than the engine: it must not remove the files of others."""
    name = "environments/production/.terraform"
    workspace, others = tmp_path / "workspace", tmp_path / "others"
    theirs = others / name / "theirs"
    for path in (workspace / name / "ours", theirs):
        path.parent.mkdir(parents=True)
        path.touch()
    (workspace / swapped).rename(workspace / "moved")
    (workspace / swapped).symlink_to(others / swapped)
    try:
        kept_init.remove(workspace / "environments" / "production", workspace, b"")
    except OSError:
        assert swapped != name
    assert theirs.exists()
