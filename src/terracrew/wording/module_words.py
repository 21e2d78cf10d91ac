"""A module in words, the same on pages and in a terminal: its source, backend, limits, dispatcher and dependencies."""

from collections.abc import Mapping, Sequence
from typing import Any

from terracrew.protocol.spec import ArchiveSource, GitSource, LocalSource, PluginSource, RegistrySource, Source
from terracrew.wording.durations import written

FAILURE_KINDS = {
    "time_limit": "Time limit reached",
    "out_of_memory": "Out of memory",
    "process_limit": "Too many processes",
    "disk_full": "Disk full",
    "state_locked": "State locked by another run",
}
"""What a failed job lacked, or who was in its way."""


def described_limits(limits: Mapping[str, Any]) -> list[str]:
    """Return each limit as a phrase: `job 1h`, `plan 10m`, `2,048 MB of memory`. `limits` is as the API shows it."""
    found: list[str] = []
    if seconds := limits.get("job_seconds"):
        found.append(f"job {written(seconds)}")
    steps: Mapping[str, int] = limits.get("step_seconds") or {}
    found += [f"{step} {written(seconds)}" for step, seconds in steps.items()]
    if memory := limits.get("memory_mb"):
        found.append(f"{memory:,} MB of memory")
    if processes := limits.get("processes"):
        found.append(f"{processes:,} processes and threads")
    if retries := limits.get("plan_retries"):
        found.append(f"{retries} plan {'retry' if retries == 1 else 'retries'}")
    return found


REVISIONS = ("branch", "tag", "commit", "version")
"""The fields of a git repository that choose a revision."""


def described_source(source: Source) -> str:
    """Return the source of a module in a few words."""
    below = f"//{source.subdirectory}" if source.subdirectory else ""
    match source:
        case GitSource():
            revision = next((f", {kind} {text}" for kind in REVISIONS if (text := getattr(source, kind))), "")
            return f"{source.url}{below}{revision}"
        case RegistrySource():
            return f"{source.address}{below}, {f'version {source.version}' if source.version else 'newest version'}"
        case LocalSource():
            return f"{source.path}{below} on the runner"
        case ArchiveSource():
            return f"uploaded archive {source.sha256[:12] or source.archive_id}{below}"
        case PluginSource():
            return f"{source.plugin} (plug-in){below}"


def backend_warning(path: str, before: str, after: str, state_version: int) -> str:
    """Return what somebody must know who changes the backend of a module; '' if nothing changes or nothing is lost.

    `state_version` is the version of the state that Terracrew has of the module; 0 if it has none.
    """
    if before == after:
        return ""
    if after == "own":
        if not state_version:
            return ""
        return (
            f"Terracrew keeps version {state_version} of the state of {path}, and its jobs do not use it any more: a plan creates "
            "everything again that the other backend does not know. Push it there before the next job: "
            f"`terracrew state show {state_version} --module {path} > state.json`, then `tofu state push state.json`"
        )
    if not state_version:
        has = f"Terracrew has no state of {path}, so its next plan creates everything again"
    else:
        has = f"Terracrew has version {state_version} of the state of {path}, from before its state was kept elsewhere"
    return (
        f"{has}. Bring the state from the other backend: `tofu state pull > state.json` where the configuration is, then "
        f"`terracrew state import {path} state.json`"
    )


def described_choice(choice: Mapping[str, Any], places: Mapping[str, str] | None = None) -> list[str]:
    """Return each part as a phrase: `kubernetes`, `image registry.example/executor:2`. `choice` is as the API shows it. `places`
    are the paths of groups that fields come from, which the phrases name."""
    found: dict[str, str] = {}
    if name := choice.get("name"):
        found["name"] = str(name)
    if image := choice.get("image"):
        found["image"] = f"image {image}"
    if memory := choice.get("memory_mb"):
        found["memory_mb"] = f"{memory:,} MB of memory"
    if cpu := choice.get("cpu"):
        found["cpu"] = f"{cpu:g} processor{'' if cpu == 1 else 's'}"
    if account := choice.get("service_account"):
        found["service_account"] = f"service account {account}"
    if choice.get("inherits") is False:
        found["inherits"] = "nothing of the groups above"
    for field, path in (places or {}).items():
        found[field] += f" (from {path or 'the organization'})"
    return list(found.values())


HIDDEN = "a module that you may not see"
"""What is said instead of the path of a module that the reader may not see."""
MAX_NAMED = 10


def used_by(users: Sequence[str]) -> str:
    """Say which modules use outputs of a module: `2 modules use its outputs: stack/b and stack/c`."""
    named = [each for each in users if each != HIDDEN][:MAX_NAMED]
    if left := len(users) - len(named):
        named.append(f"{left:,} that you may not see" if len(users) <= MAX_NAMED else f"{left:,} more")
    words = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    count = "1 module uses" if len(users) == 1 else f"{len(users):,} modules use"
    return f"{count} its outputs: {words}"
