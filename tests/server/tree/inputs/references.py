"""Two modules of a tree, one of which uses an output of the other, and how tests apply them."""

from typing import Any

from terracrew.protocol.events import Output, OutputsRead
from tests.builders.deliveries import APPLIED, DONE, RUNNING, fact
from tests.server.application import Application, Person
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import tree, tree_again

NETWORK, APP = "platform/network/vpc", "platform/network/app"


def reference(place: str, module: str, output: str = "id", name: str = "vpc_id", **more: Any) -> dict[str, Any]:
    return {"place": place, "name": name, "output": {"module": module, "output": output}, **more}


async def refer(who: Person, *arguments: str, **more: Any) -> Any:
    answer = await who.post("/api/v1/inputs", json=reference(*arguments, **more))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def apply(runner: SimulatedRunner, module_id: str, **outputs: Output) -> str:
    """Apply a module, whose outputs are these afterwards; the id of the job."""
    made = await runner.app.admin.made(f"/api/v1/modules/{module_id}/jobs", {"type": "APPLY"})
    await finish(runner, made["id"], read=outputs or None)
    return made["id"]


async def finish(
    runner: SimulatedRunner,
    job_id: str,
    *,
    resources: int | None = None,
    read: dict[str, Output] | None = None,
) -> None:
    """Run a job that waits, which reads these outputs at its end, and writes a state of so many resources if that is given."""
    attempt = await runner.again(job_id)
    await attempt.deliver(RUNNING)
    await attempt.begin()
    if resources is not None:
        await attempt.write(b"{}", resources=resources)
    await attempt.deliver(APPLIED, *([] if read is None else [fact(OutputsRead(read, checksum(read)))]), DONE)


async def destroy(runner: SimulatedRunner, module_id: str) -> None:
    made = await runner.app.admin.made(f"/api/v1/modules/{module_id}/jobs", {"type": "DESTROY"})
    await finish(runner, made["id"])


def checksum(outputs: dict[str, Output]) -> str:
    from hashlib import sha256

    import msgspec

    return sha256(msgspec.json.encode(outputs, order="sorted")).hexdigest()


async def pair(application: Application) -> tuple[str, str]:
    """The ids of two modules; the second has an input that is an output of the first."""
    network, app = await tree(application), (await tree_again(application, "app"))["id"]
    made = await refer(application.admin, APP, NETWORK)
    assert (made["kind"], made["source_module"], made["source_output"]) == ("output", NETWORK, "id")
    return network, app
