"""The environment of Pulumi's commands: nobody is asked, nothing is downloaded unasked, and the state stays where Terracrew wants it."""

import base64
import os
from collections.abc import Mapping
from pathlib import Path

from terracrew.executor.engines.pulumi import project

DOWNLOADS_VARIABLE = "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"
PASSPHRASE_VARIABLES = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")
_ALWAYS = {
    "PULUMI_SKIP_UPDATE_CHECK": "true",
    "PULUMI_DISABLE_CI_DETECTION": "true",
    "PULUMI_SUPPRESS_NEO_LINK": "true",
    "PULUMI_DEBUG_COMMANDS": "true",  # without it, the option `--event-log` is not known
}
_NEVER = ("PULUMI_SKIP_CHECKPOINTS", "PULUMI_SKIP_CONFIRMATIONS", "PULUMI_RUN_PROGRAM", "PULUMI_AUTOMATION_API")
"""These would make Pulumi save less of its state, or do something else than the command says."""
_STATE_PREFIXES = ("PULUMI_DIY_BACKEND_", "PULUMI_SELF_MANAGED_STATE_")
_STATE = {
    "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
    "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",  # the salt of the secrets is in the state
}


HOME_VARIABLE = "PULUMI_HOME"


def of_commands(base: Mapping[str, str], home: str, program_folder: str) -> dict[str, str]:
    """Return the environment of all commands. The language hosts are beside the program."""
    kept = {name: value for name, value in base.items() if name not in (*_NEVER, project.STACK_VARIABLE)}
    path = f"{program_folder}:{base['PATH']}" if base.get("PATH") else program_folder
    ours = {**_ALWAYS, HOME_VARIABLE: home, "PATH": path}
    if not may_download(base):
        ours |= {DOWNLOADS_VARIABLE: "true", "PULUMI_DISABLE_REGISTRY_RESOLVE": "true"}
    return {**kept, **ours}


def may_download(environment: Mapping[str, str]) -> bool:
    """Return whether Pulumi may download plug-ins: only if somebody says so."""
    return environment.get(DOWNLOADS_VARIABLE, "true").lower() in ("false", "0")


def with_state(environment: Mapping[str, str], url: str, module_key: bytes) -> dict[str, str]:
    """Return the environment for a state that Terracrew holds.

    The secrets in it are encrypted under the module's own key, unless the module has a passphrase: its source may have secrets
    that were encrypted with it.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith(_STATE_PREFIXES)}
    if not any(name in kept for name in PASSPHRASE_VARIABLES):
        kept[PASSPHRASE_VARIABLES[0]] = base64.b64encode(module_key).decode()
    return {**kept, **_STATE, "PULUMI_BACKEND_URL": url}


def operator_home(environment: Mapping[str, str]) -> Path | None:
    """Return where the operator's own Pulumi has its plug-ins; None if that is not known."""
    home, user_home = environment.get(HOME_VARIABLE, ""), environment.get("HOME", "")
    if os.path.isabs(home):
        return Path(home)
    return Path(user_home, ".pulumi") if os.path.isabs(user_home) else None


def provide_plugins(home: Path, operators: Path | None) -> None:
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
