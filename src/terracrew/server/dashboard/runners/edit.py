"""The forms that register a runner and edit it, how one that was just registered is started, and whether a process has connected."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Redirect

from terracrew import __version__
from terracrew.api import fields
from terracrew.api.runners import Instance, Registered, Registration, Runner, RunnerChange, RunnerOptions, RunnerView
from terracrew.client.address import is_loopback
from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.field_forms import FormField
from terracrew.server.dashboard.runners import page
from terracrew.server.dashboard.runners.page import HERE
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
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


class RegisterForm(msgspec.Struct, frozen=True):
    """What a runner is called and where it is. Its settings are fields of their own."""

    name: str = ""
    group: str = ""
    assign: bool = False
    """Whether all modules of the group may use it at once: an unchecked box sends nothing."""


def record() -> list[FormField]:
    return field_forms.layout(RunnerOptions)


def registration(
    form: RegisterForm, typed: Mapping[str, str] | None = None, wrong: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return what the template of the form that registers a runner needs."""
    shown = record()
    texts = field_forms.to_form(shown, RunnerOptions()) | dict(typed or {})
    return {"form": form, "shown": shown, "texts": texts, "wrong": wrong or {}, "is_open": bool(typed)}


@get("/add")
async def add_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    groups = await request.read(forms.offer_groups, Verb.RUNNER_WRITE)
    values = registration(RegisterForm(group=group, assign=True))
    return await render.page(request, "runners/add", "runners/register", groups=groups, made=None, **values)


@post("/add", status_code=200)
async def add(request: DashboardCall) -> Response[Any]:
    """Register a runner. Only this answer contains its token."""
    form, typed = await forms.read(request, RegisterForm), await forms.read_texts(request)
    wrong, how = dict[str, str](), dict[str, Any](made=None)
    try:
        how = shown(await _register(request, form, typed))
    except (Invalid, Conflict) as error:
        wrong = field_forms.place_error(record(), error)
    groups = await request.read(forms.offer_groups, Verb.RUNNER_WRITE)
    fragment = "runners/register" if wrong else "runners/registered"
    values = registration(form, typed, wrong)
    return await render.page(request, "runners/add", fragment, groups=groups, **values, **how)


async def _register(request: DashboardCall, form: RegisterForm, typed: Mapping[str, str]) -> Registered:
    settings = field_forms.from_form(record(), typed, RunnerChange, RunnerOptions())
    new = Registration(name=form.name.strip(), group=form.group, assign=form.assign, **fields.given(settings))
    url, seconds = request.context.url, request.context.identity.tokens.worker_token_seconds
    key = request.context.release_key
    return await request.write(service.register, new, url, seconds, key)


@get("/{runner:str}/edit")
async def edit_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    return await _answer(request, runner, {}, None)


@post("/{runner:str}/edit", status_code=200)
async def save(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    typed = await forms.read_texts(request)

    async def work(tx: Tx, who: Principal) -> RunnerView:
        found = await service.changeable(tx, who, runner)
        change = field_forms.from_form(_shown(found), typed, RunnerChange, found)
        return await service.change(tx, who, runner, change)

    try:
        view = await request.write(work)
    except Invalid as error:
        return await _answer(request, runner, typed, error)
    return render.done(request, f"{view.path} is changed", page.address(view.id))


async def _answer(
    request: DashboardCall, runner: str, typed: Mapping[str, str], error: TerracrewError | None
) -> Response[Any]:
    found = await request.read(service.changeable, runner)
    shown = _shown(found)
    return await render.template(
        request,
        "runners/edit_page.html",
        runner=found,
        shown=shown,
        form=field_forms.show_form(shown, found, typed),
        wrong=field_forms.place_error(shown, error) if error else {},
    )


def _shown(runner: Runner) -> Sequence[FormField]:
    """Return the fields of a runner. The record of one that the server's settings declare is changed only there."""
    return [*([] if runner.is_declared else record()), *field_forms.layout(Runner, ["configuration"])]


@get("/{runner:str}/started")
async def started(request: DashboardCall, runner: FromPath[str], since: Moment = 0) -> Response[Any]:
    """Return the part of a page that waits for a process of a runner."""
    if not render.is_fragment(request):
        return Redirect(f"{HERE}/{runner}", status_code=303)
    found = await request.read(service.show, runner)
    return await render.template(request, "runners/started.html", started=StartedRunner(found, since))
