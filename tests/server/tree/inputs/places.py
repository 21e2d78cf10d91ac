"""A tree with one module, and how tests set inputs at its places."""

from typing import Any

from tests.server.application import Application, Person
from tests.server.simulated_runner import SimulatedRunner

SOURCE = {"kind": "local", "path": "/srv/sources/vpc"}
SECRET = "hunter2-of-the-group"
PLACE = "platform/network/vpc"


async def tree(application: Application) -> str:
    """The module `platform/network/vpc`; its id."""
    await application.admin.made("/api/v1/groups", {"path": "platform/network"}, parents=True)
    made = await application.admin.made("/api/v1/modules", {"path": "platform/network/vpc", "source": SOURCE})
    return made["id"]


async def put(who: Person, place: str, name: str, value: Any, **more: Any) -> Any:
    answer = await who.post("/api/v1/inputs", json={"place": place, "name": name, "value": value, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def granted(runner: SimulatedRunner, module_id: str, **asked: Any) -> Any:
    """The specification that a new job of the module is granted with."""
    made = await runner.app.admin.made(f"/api/v1/modules/{module_id}/jobs", {"type": "PLAN", **asked})
    return (await runner.instance.has(made["id"], 1)).spec, made


async def tree_again(application: Application, name: str) -> Any:
    return await application.admin.made("/api/v1/modules", {"path": f"platform/network/{name}", "source": SOURCE})


async def put_secret(who: Person, place: str, name: str, secret: str = SECRET, **more: Any) -> Any:
    answer = await who.post("/api/v1/inputs", json={"place": place, "name": name, "secret": secret, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()
