"""The texts of reasons: what keeps a queued job from its runners, in words that name no runner that the reader may not see."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

from terracrew import plugins
from terracrew.api.deployments import CloudInstance
from terracrew.api.job_views import Reason
from terracrew.api.jobs import Job
from terracrew.protocol import dispatcher_choice
from terracrew.server.db.seam import Row, Tx
from terracrew.server.deployments import reads
from terracrew.server.deployments.model import CloudDeployment
from terracrew.server.engines import model as engines
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Visible
from terracrew.server.runners import crew_reads
from terracrew.server.runners.model import SILENCE_SECONDS
from terracrew.server.scheduling.crews import Crew
from terracrew.server.scheduling.select import Code, JobNeeds
from terracrew.wording.durations import duration

MAX_NAMED_RUNNERS = 3
"""The number of runners that a reason names; the others are counted."""
MAX_COUNTED_JOBS = 100
"""Jobs ahead are counted up to this number."""
RUNNERS = "/dashboard/runners"
HIDDEN_RUNNER = "a runner that you may not see"
tags_of = msgspec.json.Decoder(list[str]).decode


class UnservedJob(msgspec.Struct, frozen=True):
    """A job with what it needs, and the places whose runners may take it, nearest first."""

    job: Job
    module: Row
    needs: JobNeeds
    tiers: list[Crew]
    crew: Crew | None
    """The place whose runners the job waits for; None if none is available."""
    code: Code

    @property
    def offline(self) -> list[Crew]:
        """The places whose runners are listed in the reason if none of them is online."""
        return self.tiers if self.crew is None else [self.crew]


class FullGroup(msgspec.Struct, frozen=True):
    """A group that has as many running jobs as it may have."""

    path: str
    max_running_jobs: int
    running: int


class ReadableNames(msgspec.Struct, frozen=True):
    """Runners as the reader may know them: a runner of a group that the reader may not see has no name."""

    seen: Visible | None
    """What the reader may see; None if all runners may be named."""

    def has(self, organization_id: str | None, path: str) -> bool:
        if self.seen is None or organization_id is None:  # shared runners are for everybody
            return True
        return self.seen.covers(authorize.group(organization_id, path.rpartition("/")[0]))

    def has_row(self, row: Row) -> bool:
        return self.has(row["organization_id"], row["path"])


def no_runner(unserved: UnservedJob, known: list[Row], names: ReadableNames, watched_for: float, now: float) -> Reason:
    """Return the reason if no runner that is online could take the job, even with a free slot."""
    match unserved.code:
        case "no_assignment":
            text = "no runner is assigned to this module; assign one, or register a new one"
            return Reason("no_assignment", text, RUNNERS)
        case "instance_absent":
            return _absent(unserved)
        case "wrong_tag":
            return _wrong_tag(unserved, known, names)
        case "no_dispatcher":
            return _no_dispatcher(unserved)
        case "no_engine":
            return _no_engine(unserved)
        case _:
            return _none_online(unserved, known, names, watched_for, now)


def _none_online(
    unserved: UnservedJob, known: list[Row], names: ReadableNames, watched_for: float, now: float
) -> Reason:
    crew = {row["id"]: row for row in known}
    said = _said(unserved, list(crew.values()), names)
    single = next(iter(crew.values())) if len(crew) == 1 else None
    is_named = single is not None and names.has(single["organization_id"], single["path"])
    link = _page(single["id"]) if single is not None and is_named else RUNNERS
    start = now - watched_for
    if watched_for < SILENCE_SECONDS and any(start - SILENCE_SECONDS < (r["heard_at"] or 0) < start for r in known):
        return Reason("settling", f"the server has just started, and its runners are not back yet: {said}", link)
    if unserved.code == "settling":
        text = f"its nearest runners have just disconnected, and are waited for before others may have it: {said}"
        return Reason("settling", text, link)
    if unserved.module["maker_id"] is not None:
        text = f"only the runner that made its plan can continue with it, and that runner takes no jobs now: {said}"
        return Reason("plan_runner", text, link)
    if not any(row["has_credential"] for row in known):
        text = f"none of its runners has a usable credential, so none can connect: {said}"
        return Reason("no_credential", f"{text}; give it a worker token or a service account", link)
    return Reason("none_online", f"no runner available: {said}", link)


def _said(unserved: UnservedJob, crew: list[Row], names: ReadableNames) -> str:
    """Return the names of a few runners, each with the reason why it takes no jobs."""
    named = sorted(f"{row['path']} ({_state(row)})" for row in crew if names.has(row["organization_id"], row["path"]))
    hidden = sum(not names.has(row["organization_id"], row["path"]) for row in crew)
    is_cut = any(tier.runners > crew_reads.MAX_LISTED for tier in unserved.offline)
    total = sum(tier.runners for tier in unserved.offline) if is_cut else len(crew)
    parts = named[:MAX_NAMED_RUNNERS]
    if not parts:
        return HIDDEN_RUNNER if total == 1 else f"{total} runners that you may not see"
    if hidden and not is_cut:
        parts.append(HIDDEN_RUNNER if hidden == 1 else f"{hidden} runners that you may not see")
    more = total - min(MAX_NAMED_RUNNERS, len(named)) - (0 if is_cut else hidden)
    return ", ".join(parts) + (f" and {more} more" if more else "")


def _state(row: Row) -> str:
    """Return the reason why a runner takes no jobs."""
    if row["is_disabled"]:
        return "disabled"
    if row["is_connected"]:
        if row["is_drained"]:
            return "draining"
        if row["is_disk_full"]:
            return "its disk is full"
        return f"draining: {row['drain_reason']}" if row["drain_reason"] else "draining"
    if not row["has_credential"]:
        return "no usable credential"
    if row["heard_at"] is None:
        return "has never connected"
    return f"offline since {datetime.fromtimestamp(row['heard_at'], UTC):%Y-%m-%d %H:%M} UTC"


def _absent(unserved: UnservedJob) -> Reason:
    where = "the runner that it may use" if unserved.needs.runner_id else "any runner that it may use"
    text = f"it is pinned to the instance {unserved.needs.instance_name}, which is not connected to {where}"
    return Reason("instance_absent", text, RUNNERS)


def _wrong_tag(unserved: UnservedJob, known: list[Row], names: ReadableNames) -> Reason:
    """Return the reason if no online runner has all tags of the module. It names a few of them with the tags that they lack."""
    wanted = unserved.needs.tags
    online = {row["id"]: row for row in known if row["is_connected"] and not (row["is_disabled"] or row["is_drained"])}
    lacking = sorted(
        f"{row['path']} lacks {_listed(lacks)}"
        for row in online.values()
        if names.has(row["organization_id"], row["path"]) and (lacks := wanted - set(tags_of(row["tags"])))
    )
    tags = f"the tag {_listed(wanted)}" if len(wanted) == 1 else f"all of the tags {_listed(wanted)}"
    said = f": {'; '.join(lacking[:MAX_NAMED_RUNNERS])}" if lacking else ""
    advice = "give a runner these tags, or assign one that has them to this module"
    only = next(iter(online)) if len(online) == 1 and lacking else None
    link = RUNNERS if only is None else _page(only)
    return Reason("wrong_tag", f"none of its nearest online runners has {tags}{said}; {advice}", link)


def _page(runner_id: str) -> str:
    """Return the address of the page of a runner, for a reason that names only this one."""
    return f"{RUNNERS}/{runner_id}"


def _listed(tags: Iterable[str]) -> str:
    return ", ".join(sorted(tags))


def _no_dispatcher(unserved: UnservedJob) -> Reason:
    """Return the reason if no online runner gives the job what it asks of a dispatcher. It says what the runners offer instead."""
    choice, crew = unserved.needs.choice, unserved.crew
    assert crew is not None
    offers = [each for text in crew.announced for each in engines.announced(text)]
    what = f"the dispatcher {choice.name}" if choice.name else "its default dispatcher for jobs that ask for something"
    if unserved.needs.instance_name:
        text = f"the instance {unserved.needs.instance_name}, to which it is pinned, does not offer"
    elif unserved.needs.runner_id:
        text = "the runner that it may use does not offer"
    elif unserved.needs.tags:
        text = f"no online runner with the tags {_listed(unserved.needs.tags)} that is assigned here offers"
    else:
        text = "no online runner that is assigned here offers"
    named = [each for text in crew.announced for each in dispatcher_choice.named(choice.name, engines.announced(text))]
    if not named:
        names = sorted({name for each in offers for name in (each.name, each.type)})
        said = f"offered: {', '.join(names) or 'nothing'}"
        return Reason("no_dispatcher", f"{text} {what} ({said}): change the setting dispatcher, or the runner", RUNNERS)
    # Of several lists, the one that lacks least is the one to change.
    best = min((dispatcher_choice.objections(choice, each.allows) for each in named), key=len)
    return Reason(
        "no_dispatcher",
        f"{text} {what} with {' and '.join(best)}: change the setting dispatcher, or the allow-list of the runner",
        RUNNERS,
    )


def _no_engine(unserved: UnservedJob) -> Reason:
    engine = _engine(unserved)
    if unserved.needs.choice.name:
        engine += f" for the dispatcher {unserved.needs.choice.name}"
    advice = _engine_advice(unserved)
    if unserved.needs.instance_name:
        text = f"the instance {unserved.needs.instance_name}, to which it is pinned, does not have the engine {engine}"
    elif unserved.needs.runner_id:
        text = f"the runner that it may use does not have the engine {engine}"
    elif unserved.needs.tags:
        text = f"no online runner with the tags {_listed(unserved.needs.tags)} has the engine {engine}"
    else:
        text = f"no online runner has the engine {engine}"
    return Reason("no_engine", f"{text}: {advice}", RUNNERS)


def _engine(unserved: UnservedJob) -> str:
    return f"{unserved.needs.engine} {unserved.needs.engine_version}".rstrip()


def _engine_advice(unserved: UnservedJob) -> str:
    """Return what to do on a runner so that it has the engine in a wanted version."""
    engine, wanted = unserved.needs.engine, unserved.needs.engine_version
    if engine not in plugins.BUILT_IN[plugins.ENGINES]:
        return "install the package that provides it there"
    if not wanted:
        return f"`terracrew engine install {engine}` there"
    if unserved.job.pinned_engine_version:
        wanted = unserved.job.pinned_engine_version
        start = "its first attempt was given this version, and it keeps it: "
    else:
        start = ""
    version = engines.installed_on_demand(engine, wanted)
    if version is None:
        return f"{start}Terracrew installs no such version; install one there yourself, or change the module's engine_version"
    install = f"`terracrew engine install {engine} --version {version}` there"
    return f'{start}{install}, or set engine.install = "on-demand" for it'


def merge_unknown() -> Reason:
    """Explain the wait of a job of a pull request whose runners are all too old for it."""
    text = "it runs the merge result of a pull request, and the version of its runners is too old for that: update a runner"
    return Reason("no_engine", text, RUNNERS)


def offered(seconds_until_retry: float, now: float) -> Reason:
    """Explain the wait of a job that a runner could take now. A runner may have failed to start it."""
    if not seconds_until_retry:
        return Reason("offered", "a runner gets it in a moment")
    text = "a runner could not start it, as its last attempt says, and tries again later; other runners can take it at once"
    return Reason("offered", text, until=datetime.fromtimestamp(now + seconds_until_retry, UTC))


def capped(group: FullGroup) -> Reason:
    name = f"the group {group.path}" if group.path else "the organization"
    limit = f"{group.max_running_jobs} job{'' if group.max_running_jobs == 1 else 's'}"
    text = f"{name} may run {limit} at once, and {group.running} {'is' if group.running == 1 else 'are'} running"
    return Reason(
        "capped", text, f"/dashboard/groups/{quote(group.path, safe='')}" if group.path else "/dashboard/groups"
    )


def full(unserved: UnservedJob, ahead: int | None) -> Reason:
    """Return the reason if runners could take the job but all of their slots are taken."""
    crew = unserved.crew
    assert crew is not None
    slots = f"{crew.slots} slot{'' if crew.slots == 1 else 's'}"
    if unserved.needs.instance_name:
        text = f"the instance {unserved.needs.instance_name}, to which it is pinned, is full ({slots})"
    elif crew.offering < crew.tagged:
        asked = (
            f"the dispatcher {unserved.needs.choice.name}"
            if unserved.needs.choice.name
            else "what it asks of a dispatcher"
        )
        text = f"all of its runners that offer {asked} are full ({slots})"
    elif crew.able < crew.offering:
        text = f"all of its runners with the engine {_engine(unserved)} are full ({slots})"
    elif crew.tagged < crew.named:
        text = f"all of its runners with the tags {_listed(unserved.needs.tags)} are full ({slots})"
    else:
        text = f"all of its runners are full ({slots})"
    if ahead is not None:
        place = "it is the next" if not ahead else f"{ahead} job{'s' if ahead > 1 else ''} ahead of it"
        text += f", more than {MAX_COUNTED_JOBS} jobs ahead of it" if ahead > MAX_COUNTED_JOBS else f", {place}"
    return Reason("all_full", text, RUNNERS)


class Waking(msgspec.Struct, frozen=True):
    """The deployments of the cloud-hosted runners that a job may use, with their instances that have not ended."""

    deployments: Mapping[str, CloudDeployment] = {}
    live: Mapping[str, list[CloudInstance]] = {}


async def read_waking(tx: Tx, members: Iterable[Row]) -> Waking:
    """Read the deployments of these runners. Nothing is read if none of them is cloud-hosted."""
    ids = {row["id"] for row in members if row["is_cloud_hosted"]}
    if not ids:
        return Waking()
    return Waking(await reads.many(tx, ids), await reads.live_of(tx, ids))


def starting(waking: Waking, known: Iterable[Row], is_readable: Callable[[Row], bool]) -> Reason | None:
    """Return the reason of a job that waits for an instance that starts; None if none of these runners has one.

    The text stays the same while the cloud says the same; `since` says how long it takes so far.
    """
    coming = [
        (each.wanted_at, each.id, each, row)
        for row in known
        if row["can_wake"]
        for each in waking.live.get(row["id"], ())
        if each.status in ("wanted", "starting")
    ]
    if not coming:
        return None
    _, _, first, row = min(coming, key=lambda found: found[:2])
    typical = duration(waking.deployments[first.runner_id].typical_start_seconds)
    doing = f", {first.words}" if first.words else ""
    text = f"starting a cloud-hosted runner: about {typical}{doing}"
    return Reason("waking", text, f"{RUNNERS}/{first.runner_id}" if is_readable(row) else "", since=first.wanted_at)


def asleep(queued_at: datetime) -> Reason:
    """Return the reason of a job that waits for a cloud-hosted runner of which no instance was started yet."""
    return Reason("waking", "starting a cloud-hosted runner, which is asleep", since=queued_at)


def refused(waking: Waking, known: Iterable[Row], is_readable: Callable[[Row], bool], now: float) -> Reason | None:
    """Return the reason of a job whose cloud-hosted runner the cloud does not start now; None if there is no such runner.

    A runner that the reader may not see has no name in it, and nothing of what its cloud said.
    """
    at = datetime.fromtimestamp(now, UTC)
    for row in known:
        found = waking.deployments.get(row["id"])
        if found is None or found.retry_at is None or found.retry_at <= at:
            continue
        if not is_readable(row):
            text = "the cloud does not start a runner that you may not see; it is asked again"
            return Reason("wake_refused", text, since=found.refused_at, until=found.retry_at)
        text = f"the cloud does not start the runner {row['path']}, and is asked again: {found.refusal_words}"
        return Reason("wake_refused", text, f"{RUNNERS}/{row['id']}", since=found.refused_at, until=found.retry_at)
    return None
