"""The addresses of transfers, below that of the attempt."""

from litestar import Router

from terracrew.server.hub.transfer import cloud_tokens, outcomes, plans, releases, starts, states
from terracrew.server.hub.transfer.context import TransferCall

_of_attempt = Router(
    "/runnerhub/attempts/{job_id:str}/{attempt:int}",
    request_class=TransferCall,
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

_other = Router("/", request_class=TransferCall, route_handlers=[starts.fetch_start, releases.get_file])
"""A task has no credential of its attempt before it has fetched its start, and a runner fetches releases with its own access token."""

ROUTERS = [_of_attempt, _other]
