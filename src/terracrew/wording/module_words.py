"""A module in words, the same on pages and in a terminal: its source, backend, limits, dispatcher and dependencies."""

from collections.abc import Mapping, Sequence

from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.protocol.spec import (
    ArchiveSource,
    GitSource,
    JobLimits,
    LocalSource,
    MergeResult,
    PluginSource,
    RegistrySource,
    Source,
)
from terracrew.wording.durations import written

FAILURE_KINDS = {
    "time_limit": "Time limit reached",
    "out_of_memory": "Out of memory",
    "process_limit": "Too many processes",
    "disk_full": "Disk full",
    "state_locked": "State locked by another run",
    "state_moved": "State moved meanwhile",
    "hook": "Refused by a hook",
    "inputs": "Inputs cannot be given",
    "lost": "Lost too often",
    "set_back": "Database set back",
    "policy": "Denied by a policy",
}
"""What a failed job lacked, or who was in its way."""
FAILURE_CLASSES = {
    "infrastructure": "Infrastructure",
    "engine": "Engine",
    "policy": "Policy",
    "user": "User",
}
"""Who can mend it, in one word."""
FAILURE_ADVICE = {
    "infrastructure": "Those who operate the runners can mend it.",
    "engine": "Those who write the configuration can mend it.",
    "policy": "Those who set limits, hooks and policies can mend it.",
    "user": "The person who started, canceled or declined it decides.",
}


def described_limits(limits: JobLimits) -> list[str]:
    """Return each limit as a phrase: `job 1h`, `plan 10m`, `2,048 MB of memory`."""
    found = [f"job {written(limits.job_seconds)}"] if limits.job_seconds else []
    found += [f"{step} {written(seconds)}" for step, seconds in limits.step_seconds.items()]
    if limits.memory_mb:
        found.append(f"{limits.memory_mb:,} MB of memory")
    if limits.processes:
        found.append(f"{limits.processes:,} processes and threads")
    if retries := limits.plan_retries:
        found.append(f"{retries} plan {'retry' if retries == 1 else 'retries'}")
    return found


REVISIONS = ("branch", "tag", "commit", "version")
"""The fields of a git repository that choose a revision."""


def described_source(source: Source) -> str:
    """Return the source of a module in a few words."""
    below = f"//{source.subdirectory}" if source.subdirectory else ""
    match source:
        case GitSource(merge=MergeResult() as merge):
            return f"{source.url}{below}, {merge.words}"
        case GitSource():
            revision = next((f", {kind} {text}" for kind in REVISIONS if (text := getattr(source, kind))), "")
            return f"{source.url}{below}{revision}"
        case RegistrySource():
            return f"{source.address}{below}, {f'version {source.version}' if source.version else 'newest version'}"
        case LocalSource():
            return f"{source.path}{below} on the runner"
        case ArchiveSource(archive_id=""):
            return "nothing was uploaded yet"
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


def described_choice(choice: DispatcherChoice, places: Mapping[str, str] | None = None) -> list[str]:
    """Return each part as a phrase: `kubernetes`, `image registry.example/executor:2`. `places` are the paths of groups that fields
    come from, which the phrases name."""
    found: dict[str, str] = {}
    if choice.name:
        found["name"] = choice.name
    if choice.image:
        found["image"] = f"image {choice.image}"
    if choice.memory_mb:
        found["memory_mb"] = f"{choice.memory_mb:,} MB of memory"
    if cpu := choice.cpu:
        found["cpu"] = f"{cpu:g} processor{'' if cpu == 1 else 's'}"
    if choice.service_account:
        found["service_account"] = f"service account {choice.service_account}"
    if getattr(choice, "inherits", True) is False:  # what a place says, and not a job
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
