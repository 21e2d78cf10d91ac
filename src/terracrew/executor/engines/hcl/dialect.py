"""How one program that runs HCL configurations differs from the others, and what operators set up for it on a machine."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.errors import Invalid

_OF_BOTH = (".local/share/terraform", ".terraform.d", ".terraformrc", ".tenv", ".tfenv")


VARIABLES = ("TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR")
MAX_CONFIGURATION_BYTES = 1 << 20
_QUOTED_PATH = re.compile(r'"(/[^"\n]+)"')


class Dialect(msgspec.Struct, frozen=True):
    name: str
    """The name of the engine, and of its program."""
    title: str
    home_configurations: tuple[str, ...]
    """The configuration files of the program in the home directory of its user."""
    home_paths: tuple[str, ...]
    """What operators set up for the program in their home directory: configurations, plug-ins, version switchers."""


TOFU = Dialect(
    name="tofu",
    title="OpenTofu",
    home_configurations=(".tofurc", ".terraformrc", ".config/opentofu/tofurc"),
    home_paths=(*_OF_BOTH, ".config/opentofu", ".local/share/opentofu", ".tofurc", ".tofuenv"),
)
TERRAFORM = Dialect(
    name="terraform",
    title="Terraform",
    home_configurations=(".terraformrc",),
    home_paths=_OF_BOTH,
)


def find_operator_paths(dialect: Dialect, environment: Mapping[str, str]) -> list[str]:
    """Return the paths for a runner with this environment. A module's own environment must not be passed, because a module
    must not open paths for itself."""
    return [path for path in _candidates(dialect, environment) if os.path.isabs(path)]


def _candidates(dialect: Dialect, environment: Mapping[str, str]) -> Iterator[str]:
    for name in VARIABLES:
        yield from environment.get(name, "").split(os.pathsep)
    home = environment.get("HOME", "")
    yield from (os.path.join(home, name) for name in dialect.home_paths)
    configurations = [os.path.join(home, name) for name in dialect.home_configurations]
    for configuration in (environment.get("TF_CLI_CONFIG_FILE", ""), *configurations):
        if os.path.isabs(configuration):
            yield from _directories_in(Path(configuration))


def _directories_in(configuration: Path) -> list[str]:
    """Return the directories that a configuration of the engine names: mirrors of providers, and overrides."""
    try:
        return _QUOTED_PATH.findall(
            read_produced(configuration, MAX_CONFIGURATION_BYTES, follows_link=True).decode(errors="replace")
        )
    except Invalid:
        return []
