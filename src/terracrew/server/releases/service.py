"""Publishes, reads and withdraws releases, and checks that the caller may do so.

Administrators of the server publish and withdraw. A release token publishes, and can do nothing else. Everybody who is logged
in may read, and so may every runner.
"""

from terracrew.api.notifications import NotificationContent
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.announcements import service as announcements
from terracrew.server.announcements.model import Announcement
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import SERVER, Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules, store
from terracrew.server.releases.model import Release, ReleaseArtifact

MAX_REASON_CHARACTERS = 1_000
_TAKEN = "exists already: a version is published once, so publish another version"
_TARGET = "release "
_READERS = frozenset({"user", "service_account", "runner", "system"})


async def publish(tx: Tx, who: Principal, release: Release) -> Release:
    """Make a release visible, whose files are stored and were checked. Raises Conflict if its version was published before."""
    await require_unpublished(tx, who, release.version)
    try:
        await store.insert(tx, release)
    except Conflict as error:  # another server has published it at the same moment
        if error.details.get("constraint") != "releases_base_version":
            raise
        raise Conflict(f"the release {release.version} {_TAKEN}") from None
    details = {
        "version": release.version,
        "is_breaking": release.is_breaking,
        "artifacts": {each.name: each.sha256 for each in release.artifacts},
    }
    await audit.record(tx, who, "release.publish", "release", release.id, details)
    words = f"It is breaking. {release.breaking_words}".strip() if release.is_breaking else ""
    await announcements.announce(tx, _news(release, "was published", words or release.notes, who))
    tx.wake("releases", release.id)
    return release


async def withdraw(tx: Tx, who: Principal, version: str, reason: str) -> Release:
    """Withdraw a release: it is not the latest one any more, and runners do not get its files. Its version stays taken."""
    await authorize.require(tx, who, Verb.SERVER_ADMIN, SERVER)
    words = reason.strip()
    if not words or len(words) > MAX_REASON_CHARACTERS:
        raise Invalid.in_field("reason", f"say in 1 to {MAX_REASON_CHARACTERS} characters why the release is withdrawn")
    found = await store.get(tx, version)
    if not await store.withdraw(tx, found, who.id, who.name, words):
        raise Conflict(f"the release {found.version} was withdrawn before: {found.withdrawn_reason}")
    await audit.record(tx, who, "release.withdraw", "release", found.id, {"version": found.version, "reason": words})
    await announcements.announce(tx, _news(found, "was withdrawn", words, who))
    tx.wake("releases", found.id)
    return await store.get(tx, version)


async def get(tx: Tx, who: Principal, version: str) -> Release:
    require_reader(who)
    return await store.get(tx, version)


async def file(tx: Tx, who: Principal, version: str, name: str, *, is_installed: bool = False) -> ReleaseArtifact:
    """Return a file of a release to download. With `is_installed`, it is about to be installed, so it may not be withdrawn."""
    found = await get(tx, who, version)
    if is_installed and found.is_withdrawn:
        raise as_withdrawn_refusal(found)
    wanted = next((each for each in found.artifacts if each.name == name), None)
    if wanted is None:
        raise NotFound(f"the release {found.version} has no file {name[:100]!r}")
    if wanted.kind == "image":
        raise NotFound(f"{wanted.name} is an image, which is not stored here: pull {wanted.reference}")
    return wanted


async def latest(tx: Tx, server_version: str) -> Release | None:
    """Return the release that the runners of a server with this version should have, with its artifacts."""
    found = rules.latest(await store.versions(tx), server_version)
    return None if found is None else (await store.some(tx, [found.id]))[0]


async def between(tx: Tx, who: Principal, since: str = "", until: str = "") -> list[Release]:
    """Return the releases after `since` up to `until`, the highest first."""
    require_reader(who)
    wanted = rules.between(await store.versions(tx), since, until)
    return await store.some(tx, [each.id for each in wanted])


async def require_publisher(tx: Tx, who: Principal) -> None:
    """Raise an error unless the principal may publish releases."""
    if who.kind != "publisher":
        await authorize.require(tx, who, Verb.SERVER_ADMIN, SERVER)


async def require_unpublished(tx: Tx, who: Principal, version: str) -> None:
    """Raise an error unless the principal may publish this version, and nobody has."""
    rules.parse(version)
    await require_publisher(tx, who)
    if before := await store.find(tx, version):
        raise _published_before(before)


def upload_target(version: str) -> str:
    """Return the target of uploads in parts that are files of a release."""
    return f"{_TARGET}{version}"


def version_of_target(target: str) -> str | None:
    """Return the version that an upload in parts is a file of; None if the upload is for something else."""
    return target.removeprefix(_TARGET) if target.startswith(_TARGET) else None


def require_reader(who: Principal) -> None:
    """Raise an error for the credential of a job, which is for its own job only."""
    if who.kind not in _READERS:
        raise Forbidden("only a person, a service account or a runner may read releases")


def _news(release: Release, what: str, text: str, who: Principal) -> Announcement:
    """Return what the channels of all organizations tell of a release."""
    return Announcement(
        event="release",
        organization_id=None,
        subject_id=release.id,
        content=NotificationContent(
            title=f"Terracrew {release.version} {what}",
            text=text,
            link="/dashboard/releases",
            facts={"By": who.name},
        ),
    )


def _published_before(release: Release) -> Conflict:
    words = (
        f"the release {release.version} was published on {release.published_at:%Y-%m-%d} by {release.published_by_name}"
    )
    if release.is_withdrawn:
        words += " and withdrawn since"
    return Conflict(f"{words}; it {_TAKEN}")


def as_withdrawn_refusal(release: Release) -> Conflict:
    """Return the error for somebody who wants to install a withdrawn release."""
    return Conflict(f"the release {release.version} was withdrawn: {release.withdrawn_reason}")
