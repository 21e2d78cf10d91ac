"""The addresses of transfers, below that of the attempt."""

from litestar import Router

from terracrew.server.hub.transfer import cloud_tokens, outcomes, plans, releases, starts, states

router = Router(
    "/runnerhub/attempts/{job_id:str}/{attempt:int}",
    route_handlers=[
        plans.get_archive,
        states.get_state,
        states.put_state,
        states.stage,
        states.put_part,
        plans.put_plan,
        plans.get_plan,
        cloud_tokens.cloud_token,
        outcomes.get_outcome,
        starts.put_start,
        starts.revoke_start,
    ],
    include_in_schema=False,
)

fetch_start = starts.fetch_start
"""A task has no credential of its attempt before it has fetched its start, so this address is not below the attempt's."""

get_release_file = releases.get_file
"""It belongs to no attempt either: a runner fetches it with its own access token."""
