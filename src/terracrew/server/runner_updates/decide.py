"""Decides about the updates of instances: whether the server can ask for one, which instance is next, and when one has failed.

Pure functions from rows to an answer.
"""

import re
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from terracrew.api.runners import Runner
from terracrew.server.connections.reads import UpdatableInstance
from terracrew.server.releases import rules
from terracrew.server.releases.model import Release, ReleaseArtifact
from terracrew.server.runner_updates.model import STEPS, InstanceUpdate
from terracrew.source_rules.version_ranges import parse_version
from terracrew.wording import durations, update_words
from terracrew.wording.update_words import ByHand

MAX_AWAY = timedelta(minutes=5)
"""How long an instance may be disconnected in the middle of its update."""
MAX_QUIET = timedelta(minutes=10)
"""How long a connected instance may report nothing new. The longest step is to fetch the files, about which it reports often."""
MAX_UPDATE = timedelta(hours=1)
MAX_REJOIN = timedelta(minutes=1)
"""How long a job waits for an instance to come back that it has not asked yet. After that, the instance counts as offline."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
RUNNER_IMAGE = "terracrew-runner"


def by_hand(runner: Runner, instances: Sequence[UpdatableInstance], release: Release) -> ByHand | None:
    """Return why a person has to update a self-hosted runner, and how; None if the server can ask it.

    `instances` are the connected ones, or the one that disconnected last.
    """
    if not instances:
        return ByHand("it was never online: start it with the new version")
    others = [each for each in instances if not each.is_self_updating and is_outdated(each, release.version)]
    found = _by_hand(others[0], release) if others else None
    if not instances[0].is_connected:
        since = f"it is offline since {instances[0].disconnected_at or instances[0].connected_at:%Y-%m-%d %H:%M} UTC"
        return ByHand(f"{since}, and {found.reason}", found.command) if found else ByHand(f"{since}: start it again")
    if found is not None and len(instances) > 1:
        return ByHand(f"{_named(others[0])} has to be updated by hand, because {found.reason}", found.command)
    if found is not None:
        return found
    if runner.is_shared:
        return ByHand("it is a shared runner, which belongs to no organization: start it again with the new version")
    if not wheels(release):
        return ByHand(f"the release {release.version} has no wheel that it could install")
    return None


def _named(instance: UpdatableInstance) -> str:
    """Name an instance beside a command. A name that could be taken for a part of the command is left out."""
    return f"its instance `{instance.name}`" if _PLAIN_NAME.fullmatch(instance.name) else "one of its instances"


def _by_hand(instance: UpdatableInstance, release: Release) -> ByHand:
    image = release.image(RUNNER_IMAGE)
    return update_words.by_hand(instance.installation, release.version, image.reference if image else "")


def refusal(runner: Runner, instances: Sequence[UpdatableInstance], release: Release, server_version: str) -> str:
    """Return why the server does not ask a self-hosted runner for an update; empty if it does."""
    if release.is_withdrawn:
        return f"the release {release.version} was withdrawn: {release.withdrawn_reason}"
    if release.min_server_version and rules.is_lower(server_version, release.min_server_version):
        return f"the release {release.version} needs a server with {release.min_server_version}: this one has {server_version}"
    if runner.removing_since is not None:
        return f"`{runner.path}` is being removed"
    if (found := by_hand(runner, instances, release)) is not None:
        return f"`{runner.path}` is updated by hand: {found.reason}" + (f": {found.command}" if found.command else "")
    unknown = next((each for each in instances if parse_version(each.version) is None), None)
    if unknown is not None:
        return f"the version of `{runner.path}` is not known, so that this could be a downgrade: it says {unknown.version!r}"
    if not any(is_outdated(each, release.version) for each in instances):
        newer = next((each for each in instances if rules.is_lower(release.version, each.version)), None)
        if newer is not None:
            return f"`{runner.path}` has {newer.version}: {release.version} would be a downgrade"
        return f"`{runner.path}` has {release.version} already"
    return ""


def is_outdated(instance: UpdatableInstance, version: str) -> bool:
    """Return whether an instance has a lower version. One whose version is not known is not outdated."""
    return rules.is_outdated(instance.version, version)


def next_instance(
    instances: Sequence[UpdatableInstance], asked: Collection[str], version: str, now: datetime
) -> UpdatableInstance | None:
    """Return the instance that is asked next, or waited for because it has just disconnected; None if all have the version.

    `asked` are the ids of those that the job has asked.
    """
    left = [each for each in instances if each.id not in asked and is_outdated(each, version)]
    here = [each for each in left if each.is_connected]
    away = [each for each in left if not each.is_connected and now - (each.disconnected_at or now) < MAX_REJOIN]
    return next(iter([*here, *away]), None)


def is_updated(update: InstanceUpdate, instance: UpdatableInstance | None) -> bool:
    """Return whether an update has ended well: the instance says so, and has said hello with the new version."""
    return (
        update.status == "done"
        and instance is not None
        and parse_version(instance.version) == parse_version(update.version)
    )


def problem(update: InstanceUpdate, instance: UpdatableInstance | None, now: datetime) -> str:
    """Return why an update has failed; empty while it goes on, or if it has ended well."""
    if instance is None:
        return "the instance was removed"
    if update.status == "withdrawn":
        return "the update was withdrawn"
    if update.status == "failed":
        return update.words or "the instance did not say why"
    if update.status == "done":
        is_wrong = not is_updated(update, instance)
        return f"it reports that it was updated, but it said hello as {instance.version}" if is_wrong else ""
    if not instance.is_connected:
        away = now - (instance.disconnected_at or now)
        return (
            f"it disconnected {durations.duration(away.total_seconds())} ago and has not come back"
            if away > MAX_AWAY
            else ""
        )
    if update.status == "asked" and not instance.is_self_updating:
        return "it does not update itself any more: somebody has started it with other settings"
    if now - update.changed_at > MAX_QUIET:
        return f"it has reported nothing for {durations.duration((now - update.changed_at).total_seconds())}"
    if now - update.asked_at > MAX_UPDATE:
        return f"it has not ended within {durations.duration(MAX_UPDATE.total_seconds())}"
    return ""


def step_index(step: str) -> int:
    """Return the place of a step in the order of steps; that of the first one if it is not known."""
    names = list(STEPS)
    return names.index(step) if step in STEPS else 0


def wheels(release: Release) -> list[ReleaseArtifact]:
    """Return the files that runners install."""
    return [each for each in release.artifacts if each.kind == "wheel"]
