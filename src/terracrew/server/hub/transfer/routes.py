"""The addresses of transfers, below that of the attempt."""

from litestar import Router

from terracrew.server.hub.transfer import archives, cloud_tokens, parts, plans, states

router = Router(
    "/runnerhub/attempts/{job_id:str}/{attempt:int}",
    route_handlers=[
        archives.get_archive,
        states.get_state,
        states.put_state,
        parts.stage,
        parts.put_part,
        plans.put_plan,
        plans.get_plan,
        cloud_tokens.cloud_token,
    ],
    include_in_schema=False,
)
