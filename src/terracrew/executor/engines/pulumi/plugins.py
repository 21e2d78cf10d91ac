"""Plug-ins of Pulumi: an attempt has a home of its own, with links to those that the operator of the machine has installed."""

import os
from collections.abc import Mapping
from pathlib import Path

HOME_VARIABLE = "PULUMI_HOME"


def operator_home(environment: Mapping[str, str]) -> Path | None:
    """Return where the operator's own Pulumi has its plug-ins; None if that is not known."""
    home, user_home = environment.get(HOME_VARIABLE, ""), environment.get("HOME", "")
    if os.path.isabs(home):
        return Path(home)
    return Path(user_home, ".pulumi") if os.path.isabs(user_home) else None


def provide(home: Path, operators: Path | None) -> None:
    """Make the home of an attempt. Pulumi ignores links to folders, so each plug-in is a folder with links to its files."""
    own = home / "plugins"
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = sorted((operators / "plugins").iterdir()) if operators and (operators / "plugins").is_dir() else []
    for plugin in found:
        copy = own / plugin.name
        if plugin.name.startswith(".") or not plugin.is_dir() or os.path.lexists(copy):
            continue
        if plugin.with_name(f"{plugin.name}.partial").exists():
            continue  # its installation has not ended
        copy.mkdir(mode=0o700)
        for file in plugin.iterdir():
            (copy / file.name).symlink_to(file)
