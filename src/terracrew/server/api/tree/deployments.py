"""Cloud-hosted runners over HTTP: what is deployed in clouds."""

from litestar import get, post
from litestar.params import FromPath, JSONBody

from terracrew.api.deployments import DeployAgain, DeployedRunner, DeploymentView, DestroyRequest, NewCloudRunner
from terracrew.server.api.context import TreeCall
from terracrew.server.cloud_hosted import deploying
from terracrew.server.http.request import tree_path


@post("/runners/deploy", summary="Deploy a cloud-hosted runner")
async def deploy(request: TreeCall, data: JSONBody[NewCloudRunner]) -> DeployedRunner:
    """Create a runner and deploy it in the account of a cloud identity. The answer has the job that does it; when that has succeeded,
    the runner was online, and it sleeps while there are no jobs.
    """
    return await request.write(deploying.deploy, data, request.context.settings.cloud_runner_image)


@get("/runners/{runner:str}/deployment", summary="Show what is deployed for a runner")
async def show(request: TreeCall, runner: FromPath[str]) -> DeploymentView:
    """Show what was deployed for a cloud-hosted runner, what runs of it now, and what the cloud last refused."""
    return await request.read(deploying.show, tree_path(runner))


@post("/runners/{runner:str}/deploy", summary="Deploy a runner again")
async def deploy_again(request: TreeCall, runner: FromPath[str], data: JSONBody[DeployAgain]) -> DeployedRunner:
    """Deploy a cloud-hosted runner again, with other settings if there are any. Jobs that run finish on the instances that they have."""
    image = request.context.settings.cloud_runner_image
    return await request.write(deploying.deploy_again, tree_path(runner), data, image)


@post("/runners/{runner:str}/destroy", summary="Remove a cloud-hosted runner")
async def destroy(request: TreeCall, runner: FromPath[str], data: JSONBody[DestroyRequest]) -> DeployedRunner:
    """Remove a cloud-hosted runner with everything that was made for it in the cloud. It drains first; with `force`, its jobs count
    as lost. Its record disappears when the job has succeeded.
    """
    return await request.write(deploying.destroy, tree_path(runner), data)


@post("/runners/{runner:str}/wake", summary="Wake a cloud-hosted runner")
async def wake(request: TreeCall, runner: FromPath[str]) -> DeploymentView:
    """Start an instance of a runner that sleeps, before a job needs it. It sleeps again if none comes. A runner that is awake, or
    waking, stays as it is.
    """
    return await request.write(deploying.wake, tree_path(runner))
