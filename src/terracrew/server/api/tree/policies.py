"""Policies over HTTP."""

from typing import Annotated

from litestar import delete, get, patch, post
from litestar.params import FromPath, JSONBody, QueryParameter

from terracrew.api.pages import Page
from terracrew.api.policies import (
    NewPlanPolicy,
    NewPolicyVersion,
    PolicyActivation,
    PolicyChange,
    PolicyDetails,
    PolicyTrial,
    PolicyTrialResult,
    PolicyVersionTrial,
    PolicyView,
)
from terracrew.server.api.context import TreeCall
from terracrew.server.http.request import tree_path
from terracrew.server.policies import service

AtPlace = Annotated[
    str | None,
    QueryParameter(
        description="Only those that look at the plans of this group or module, by its path: its own and those of the groups above."
        " `/` is the organization"
    ),
]


@get("/policies", summary="List policies")
async def listing(request: TreeCall, place: AtPlace = None) -> Page[PolicyView]:
    """List the policies that look at something that the caller may see, or those that look at the plans of one place."""
    return await request.read(service.listing, place)


@post("/policies", summary="Create a policy")
async def create(request: TreeCall, data: JSONBody[NewPlanPolicy]) -> PolicyView:
    """Create a policy of a group or module. It takes the right to change that place. It is a draft until it is activated; Rego that cannot
    be evaluated is refused, with line and column."""
    return await request.context.policies.create(request.user, data)


@get("/policies/{policy:str}", summary="Show a policy")
async def show(request: TreeCall, policy: FromPath[str]) -> PolicyDetails:
    """Show a policy, by its id or its path (`place/name`), with its versions."""
    return await request.read(service.show, tree_path(policy))


@patch("/policies/{policy:str}", summary="Change a policy")
async def update(request: TreeCall, policy: FromPath[str], data: JSONBody[PolicyChange]) -> PolicyView:
    """Change how a policy is called, and what follows if it denies a plan."""
    return await request.write(service.change, tree_path(policy), data)


@delete("/policies/{policy:str}", summary="Delete a policy")
async def remove(request: TreeCall, policy: FromPath[str]) -> None:
    """Delete a policy with its versions. What it has said about plans stays with their jobs."""
    await request.write(service.delete, tree_path(policy))


@post("/policies/{policy:str}/versions", summary="Add a version to a policy")
async def add_version(request: TreeCall, policy: FromPath[str], data: JSONBody[NewPolicyVersion]) -> PolicyView:
    """Add a version. It looks at no plan before it is activated."""
    return await request.context.policies.add_version(request.user, tree_path(policy), data)


@post("/policies/test", status_code=200, summary="Try Rego on earlier plans")
async def try_rego(request: TreeCall, data: JSONBody[PolicyTrial]) -> PolicyTrialResult:
    """Tell what Rego would have said about the newest plans of a place. It takes the right to change the place and to read its states.
    Nothing is stored. It ends after 20 seconds, with what it has found by then."""
    return await request.context.trials.try_rego(request.user, data)


@post("/policies/{policy:str}/test", status_code=200, summary="Try a policy on earlier plans")
async def try_version(
    request: TreeCall, policy: FromPath[str], data: JSONBody[PolicyVersionTrial]
) -> PolicyTrialResult:
    """Tell what a version of a policy would have said about the newest plans of its place."""
    return await request.context.trials.try_version(request.user, tree_path(policy), data)


@post("/policies/{policy:str}/activate", status_code=200, summary="Activate a version of a policy")
async def activate(request: TreeCall, policy: FromPath[str], data: JSONBody[PolicyActivation]) -> PolicyView:
    """Let a version look at every plan before it is applied, from now on. Plans that wait for an approval are looked at again."""
    return await request.context.policies.activate(request.user, tree_path(policy), data)


@post("/policies/{policy:str}/retire", status_code=200, summary="Retire a policy")
async def retire(request: TreeCall, policy: FromPath[str]) -> PolicyView:
    """Let a policy look at no plan any more. It can be activated again."""
    return await request.write(service.retire, tree_path(policy))
