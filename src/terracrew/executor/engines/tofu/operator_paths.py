"""What the operator of a machine has set up for OpenTofu: configuration files, plug-in caches, mirrors and version switchers."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

VARIABLES = ("TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR")
IN_HOME = (
    ".config/opentofu",
    ".local/share/opentofu",
    ".local/share/terraform",
    ".terraform.d",
    ".terraformrc",
    ".tofurc",
    ".tenv",
    ".tfenv",
    ".tofuenv",
)
_CONFIGURATIONS_IN_HOME = (".tofurc", ".terraformrc", ".config/opentofu/tofurc")
_QUOTED_PATH = re.compile(r'"(/[^"\n]+)"')


def find(environment: Mapping[str, str]) -> list[str]:
    """Return the paths for a runner with this environment. A module's own environment must not be passed, because a module
    must not open paths for itself."""
    return [path for path in _candidates(environment) if os.path.isabs(path)]


def _candidates(environment: Mapping[str, str]) -> Iterator[str]:
    for name in VARIABLES:
        yield from environment.get(name, "").split(os.pathsep)
    home = environment.get("HOME", "")
    yield from (os.path.join(home, name) for name in IN_HOME)
    configurations = [os.path.join(home, name) for name in _CONFIGURATIONS_IN_HOME]
    for configuration in (environment.get("TF_CLI_CONFIG_FILE", ""), *configurations):
        if os.path.isabs(configuration):
            yield from _directories_in(Path(configuration))


def _directories_in(configuration: Path) -> list[str]:
    """Return the directories that a configuration of the engine names: mirrors of providers, and overrides."""
    try:
        return _QUOTED_PATH.findall(configuration.read_text(errors="replace"))
    except OSError:
        return []
