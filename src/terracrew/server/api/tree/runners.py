"""Runners over HTTP, and their once tokens."""

from typing import Annotated

from litestar import delete, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.status_codes import HTTP_200_OK

from terracrew.api.pages import Page
from terracrew.api.runners import (
    Acknowledgement,
    Assignment,
    AssignTo,
    Dependents,
    DrainRequest,
    MadeOnceToken,
    NewOnceToken,
    NewRunner,
    OnceTokenView,
    Registered,
    Registration,
    Remaining,
    RunnerAlert,
    RunnerChange,
    RunnerRemoval,
    RunnerStatus,
    RunnerView,
)
from terracrew.server.api.context import TreeCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit
from terracrew.server.principals.authorize import Verb
from terracrew.server.runners import once_token_service, service, view_reads
from terracrew.server.runners.assignments import store as assignments
from terracrew.server.runners.removal import remaining
from terracrew.server.runners.removal import service as removal
from terracrew.server.tree.modules import assigning

SearchedWords = Annotated[
    str, QueryParameter(max_length=200, description="Words that the path or the description must contain")
]


@get("/runners", summary="List runners")
async def listing(
    request: TreeCall,
    status: FromQuery[RunnerStatus | None] = None,
    group: FromQuery[str | None] = None,
    search: SearchedWords = "",
    after: After = None,
    limit: Limit = 50,
) -> Page[RunnerView]:
    """List the runners of a group and of all groups below it, or of the whole organization and the shared ones."""
    return await request.read_in_background(service.listing, group, status, after, limit, search)


@post("/runners", summary="Create a runner")
async def create(request: TreeCall, data: JSONBody[NewRunner]) -> RunnerView:
    """Create the record of a runner without a token of its own: it connects as its service account."""

    async def work(tx: Tx) -> RunnerView:
        return await view_reads.view(tx, await service.create(tx, request.user, data))

    return await request.context.db.write(work)


@post("/runners/register", summary="Register a self-hosted runner")
async def register(request: TreeCall, data: JSONBody[Registration]) -> Registered:
    """Register a runner by its name. The answer has its runner ID and its runner token, which is shown this once."""
    settings = request.context.settings
    seconds, key = settings.worker_token_seconds, settings.release_key
    return await request.write(service.register, data, settings.url, seconds, key)


@get("/runners/{runner:str}", summary="Show a runner")
async def show(request: TreeCall, runner: FromPath[str]) -> RunnerView:
    """Show a runner by its path or id, with the instances that are connected as it."""
    return await request.read_in_background(service.show, tree_path(runner))


@patch("/runners/{runner:str}", summary="Change a runner")
async def change(request: TreeCall, runner: FromPath[str], data: JSONBody[RunnerChange]) -> RunnerView:
    """Change a runner. A disabled runner stays connected and gets no new jobs. Its configuration reaches its processes at once."""
    return await request.write(service.change, tree_path(runner), data)


@post("/runners/{runner:str}/reregister", summary="Register a runner again", status_code=HTTP_200_OK)
async def reregister(request: TreeCall, runner: FromPath[str]) -> Registered:
    """Give a runner a new runner token, which is shown this once. The old token ends, and its connections end within seconds. Jobs
    that the runner has now continue.
    """
    settings = request.context.settings
    seconds, key = settings.worker_token_seconds, settings.release_key
    return await request.write(service.reregister, tree_path(runner), settings.url, seconds, key)


@delete("/runners/{runner:str}", summary="Remove a runner", status_code=HTTP_200_OK)
async def remove(request: TreeCall, runner: FromPath[str], force: FromQuery[bool] = False) -> RunnerRemoval:
    """Remove a runner. It drains first, and its record disappears when its last job has ended; the answer says what is left. The
    end of the drain stops the removal. `force=true` removes any runner at once: its unfinished jobs count as lost, unless their
    executors, which have credentials of their own, deliver.
    """
    return await request.write(removal.remove, tree_path(runner), force)


@get("/runners/{runner:str}/remaining", summary="Show what a runner still has to finish")
async def show_remaining(request: TreeCall, runner: FromPath[str]) -> Remaining:
    """Show the jobs that a runner has now, and whether it is drained."""
    return await request.read_in_background(remaining.show, tree_path(runner))


@get("/runners/{runner:str}/dependents", summary="Show what would be left without a runner")
async def show_dependents(request: TreeCall, runner: FromPath[str]) -> Dependents:
    """Show which modules no other enabled runner serves, so that their jobs would wait without this one."""
    return await request.read_in_background(remaining.dependents, tree_path(runner))


@post("/runners/{runner:str}/drain", summary="Drain a runner", status_code=HTTP_200_OK)
async def drain(request: TreeCall, runner: FromPath[str], data: JSONBody[DrainRequest]) -> RunnerView:
    """Let a runner finish its jobs and get no new ones; `{"on": false}` takes that back, and stops its removal."""
    return await request.write(service.change, tree_path(runner), RunnerChange(is_draining=data.on))


@get("/runners/{runner:str}/alerts", summary="List the alerts about a runner")
async def list_alerts(request: TreeCall, runner: FromPath[str]) -> Page[RunnerAlert]:
    """List the signs that somebody else may use the runner's credentials, and that nobody has acknowledged, the latest first."""
    return await request.read(service.open_alerts, tree_path(runner))


@post("/runners/{runner:str}/alerts/acknowledge", summary="Acknowledge alerts about a runner", status_code=HTTP_200_OK)
async def acknowledge(request: TreeCall, runner: FromPath[str], data: JSONBody[Acknowledgement]) -> Page[RunnerAlert]:
    """Acknowledge the alerts about a runner, or only those of occurrences up to a time. The answer has those that are left."""
    return await request.write(service.acknowledge_alerts, tree_path(runner), data)


@get("/runners/{runner:str}/assignments", summary="List what may use a runner")
async def assigned(request: TreeCall, runner: FromPath[str]) -> Page[Assignment]:
    """List the groups and modules that the runner is assigned to."""

    async def work(tx: Tx) -> Page[Assignment]:
        found = await service.find(tx, request.user, tree_path(runner), Verb.RUNNER_READ)
        return Page(await assignments.of(tx, found.id))

    return await request.context.db.read(work)


@post("/runners/{runner:str}/assignments", summary="Let a group or a module use a runner")
async def assign(request: TreeCall, runner: FromPath[str], data: JSONBody[AssignTo]) -> Page[Assignment]:
    """Assign the runner to a module, or to a group and thereby to every module below it."""

    async def work(tx: Tx) -> Page[Assignment]:
        found = await assigning.assign(tx, request.user, tree_path(runner), data)
        return Page(await assignments.of(tx, found.id))

    return await request.context.db.write(work)


@delete("/runners/{runner:str}/assignments", summary="Take a runner away from a group or a module")
async def withdraw(request: TreeCall, runner: FromPath[str], data: JSONBody[AssignTo]) -> None:
    """Remove an assignment. Jobs that the runner already has continue."""
    await request.write(assigning.withdraw, tree_path(runner), data)


@get("/runners/{runner:str}/once-tokens", summary="List the tokens for one job of a runner")
async def list_once_tokens(
    request: TreeCall, runner: FromPath[str], after: After = None, limit: Limit = 50
) -> Page[OnceTokenView]:
    """List the once tokens of a runner, the latest first, each with the job that it has claimed. Old ones that have ended are removed."""
    return await request.read(once_token_service.listing, tree_path(runner), after, limit)


@post("/runners/{runner:str}/once-tokens", summary="Make a token for one job")
async def create_once_token(request: TreeCall, runner: FromPath[str], data: JSONBody[NewOnceToken]) -> MadeOnceToken:
    """Make a token with which a machine connects as this runner, claims one job, and delivers everything of it. It is shown this
    once. It can claim no second job, nor any after it has expired.
    """
    return await request.write(once_token_service.create, tree_path(runner), data, request.context.settings.url)


@delete("/runners/{runner:str}/once-tokens/{once_token:str}", summary="Revoke a token for one job")
async def revoke_once_token(request: TreeCall, runner: FromPath[str], once_token: FromPath[str]) -> None:
    """Revoke a once token. A connection with it ends within seconds. A job that it has claimed continues: cancel that to stop it."""
    await request.write(once_token_service.revoke, tree_path(runner), once_token)
