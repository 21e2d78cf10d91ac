"""How a runner that was just registered is started, and whether a process of it has connected."""

import shlex
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from litestar import Response, get
from litestar.params import FromPath, QueryParameter
from litestar.response import Redirect

from terracrew import __version__
from terracrew.api.runners import Instance, Registered, RunnerView
from terracrew.client.address import is_loopback
from terracrew.server.dashboard import render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.runners.page import HERE
from terracrew.server.runners import service

IMAGE = f"terracrew-runner:{__version__}"
_INSTANCE = "TERRACREW_RUNNER__INSTANCE"
Moment = Annotated[float, QueryParameter(ge=0, le=1e11)]


class StartBlock(msgspec.Struct, frozen=True):
    """A text to copy."""

    id: str
    caption: str
    text: str

    def __repr__(self) -> str:
        return f"StartBlock({self.id!r})"


class StartWay(msgspec.Struct, frozen=True):
    """A way to start a runner."""

    name: str
    word: str
    blocks: list[StartBlock]
    note: str = ""


class StartedRunner(msgspec.Struct, frozen=True):
    """A runner whose first process is waited for."""

    runner: RunnerView
    since: float
    """Processes that connected before this time used another token."""

    @property
    def arrived(self) -> Instance | None:
        """Return the process that has connected last, if one has."""
        since = datetime.fromtimestamp(self.since, UTC)
        here = [each for each in self.runner.instances if each.is_connected and each.connected_at >= since]
        return max(here, key=lambda each: each.connected_at, default=None)


def ways(made: Registered) -> list[StartWay]:
    """Return the ways to start a runner that was just registered. Their texts contain its token."""
    name, several = made.runner.name, made.runner.allow_multiple_instances
    shell = "".join(f"export {each}={shlex.quote(value)}\n" for each, value in made.environment.items())
    variables = made.environment | ({_INSTANCE: f"{name}-1"} if several else {})
    file = "".join(f"{each}={value}\n" for each, value in variables.items())
    pods = "".join(f"{each}={value}\n" for each, value in made.environment.items() if each != _INSTANCE)
    each_one = f" Each process needs a name of its own ({_INSTANCE})." if several else ""
    return [
        StartWay("shell", "Shell", [StartBlock("worker-env", "Paste this into a shell", f"{shell}{made.command}\n")]),
        StartWay(
            "docker",
            "Docker",
            [
                StartBlock("docker-env", f"Write this to {name}.env, readable by you alone", file),
                StartBlock(
                    "docker-command",
                    "Then start it",
                    f"docker run -d --name {name} --env-file {name}.env --restart unless-stopped \\\n"
                    "  --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \\\n"
                    f"  -v {name}:/home/terracrew/.terracrew {IMAGE}\n",
                ),
            ],
            f"The volume keeps the runner's key, caches, and what jobs have not delivered yet.{each_one}",
        ),
        StartWay(
            "systemd",
            "systemd",
            [
                StartBlock("systemd-env", "Write this to /etc/terracrew/runner.env, readable by root alone", file),
                StartBlock(
                    "systemd-command",
                    "Then start it, from the sources of Terracrew",
                    "useradd --system --home-dir /var/lib/terracrew-runner --create-home terracrew-runner\n"
                    "cp deploy/systemd/terracrew-runner.service /etc/systemd/system/\n"
                    "systemctl enable --now terracrew-runner\n",
                ),
            ],
            f"The unit expects Terracrew in /opt/terracrew. Running jobs continue when it stops.{each_one}",
        ),
        StartWay(
            "helm",
            "Helm",
            [
                StartBlock("helm-env", f"Write this to {name}.env, readable by you alone", pods),
                StartBlock(
                    "helm-command",
                    "Then install it, from the sources of Terracrew",
                    f"kubectl create secret generic {name} --from-env-file={name}.env --namespace runners\n"
                    f"helm install {name} deploy/helm/terracrew-runner --namespace runners \\\n"
                    f"  --set credentials.existingSecret={name} \\\n"
                    f"  --set server.url={made.environment['TERRACREW_API_URL']} \\\n"
                    "  --set image.repository=registry.example/terracrew-runner\n",
                ),
            ],
            "Name the registry that has your image."
            + (" replicas=2 starts two." if several else " It has one replica, because one process may connect."),
        ),
    ]


def shown(made: Registered, since: float = 0) -> dict[str, Any]:
    """Return what a page needs to show how the runner is started, and that it waits for it."""
    return {
        "made": made,
        "ways": ways(made),
        "is_loopback": is_loopback(made.environment["TERRACREW_API_URL"]),
        "started": StartedRunner(made.runner, since),
    }


@get("/{runner:str}/started")
async def started(request: DashboardCall, runner: FromPath[str], since: Moment = 0) -> Response[Any]:
    """Return the part of a page that waits for a process of a runner."""
    if not render.is_fragment(request):
        return Redirect(f"{HERE}/{runner}", status_code=303)
    found = await request.read(service.show, runner)
    return await render.template(request, "runners/started.html", started=StartedRunner(found, since))
