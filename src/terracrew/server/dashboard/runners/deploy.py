"""The page that deploys a runner in a cloud account: its form, what it costs, and what a deployment makes."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromQuery

from terracrew.api.cloud_identities import CloudKind
from terracrew.api.deployments import DeployAgain, DeploymentSettings, NewCloudRunner
from terracrew.clouds.aws import prices
from terracrew.clouds.model import AwsAccount
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.protocol.field import VCPU_UNIT_COUNT
from terracrew.server.cloud_hosted import deploying
from terracrew.server.cloud_identities import service as identities
from terracrew.server.cloud_identities.model import IdentityRecord
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.field_forms import FormErrors
from terracrew.server.dashboard.runners.page import HERE
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import tree_path

MAX_IDENTITIES = 200
MEGABYTES_COUNT = 1024
MINUTE_SECONDS = 60
_SIZES = ((256, 512), (512, 1024), (1024, 2048), (2048, 4096), (4096, 8192), (8192, 16384))
ARCHITECTURES = (("x86_64", "x86"), ("arm64", "ARM, about a fifth cheaper"))
NEW_RUNNER = {"name": "", "group": "", "identity": "", "description": "", "tags": "", "assign": "true"}
"""The fields of a runner that does not exist yet, besides those of its deployment."""
_SHOWN = field_forms.layout(
    DeploymentSettings,
    [
        *("cpu_units", "memory_mb", "architecture", "subnets", "has_public_address", "is_spot", "max_instances"),
        *("min_instances", "capacity", "idle_seconds", "image", "job_role", "log_days", "wakes_ahead"),
    ],
)
_FIELDS = {"cpu_units": "size", "memory_mb": "size", "idle_seconds": "idle_minutes"}
"""The settings that the form has in another way."""


class Costs(msgspec.Struct, frozen=True):
    """What a runner costs, in US dollars by list prices."""

    kind: CloudKind
    asleep_a_month: float = 0.0
    awake_an_hour: float | None = None
    """Of one instance; None if the price is not known."""
    max_instances: int = 1
    published: str = ""

    @property
    def all_an_hour(self) -> float | None:
        return None if self.awake_an_hour is None else self.awake_an_hour * self.max_instances


class IdentityChoice(msgspec.Struct, frozen=True):
    """A cloud identity that the form offers."""

    path: str
    kind: CloudKind
    place: str
    """The number of the account, or the namespace of a cluster."""
    region: str


class DeployPage(msgspec.Struct, frozen=True):
    form: Mapping[str, str]
    identities: list[IdentityChoice]
    groups: list[str]
    costs: Costs
    has_default_image: bool

    @property
    def chosen(self) -> IdentityChoice | None:
        """Return the identity that is chosen, or the first one."""
        return _chosen(self.identities, self.form["identity"])


@get("/deploy")
async def deploy_page(
    request: DashboardCall, group: FromQuery[str] = "", identity: FromQuery[str] = ""
) -> Response[Any]:
    form = to_form(DeploymentSettings()) | NEW_RUNNER | {"group": group, "identity": identity}
    return await _answer(request, form, {})


@get("/deploy/costs")
async def costs(request: DashboardCall) -> Response[Any]:
    """Return what a runner costs with what is typed in the form now."""
    return await _answer(request, _texts(request.query_params), {}, "runners/costs")


@post("/deploy", status_code=200)
async def deploy(request: DashboardCall) -> Response[Any]:
    form = _texts(await forms.read_texts(request))
    if not await request.read(forms.offer_groups, Verb.RUNNER_WRITE):
        raise Forbidden("you may not add a runner: ask an owner of a group for a role")
    try:
        made = await request.write(deploying.deploy, _wanted(form), request.context.cloud_runner_image)
    except Invalid as error:
        return await _answer(request, form, place_error(error))
    except (Conflict, Forbidden, NotFound) as error:
        field = "identity" if "cloud identity" in error.message else "name" if isinstance(error, Conflict) else "group"
        return await _answer(request, form, {field: error.message})
    return render.go(request, f"{HERE}/{made.runner.id}/deployment")


def _texts(typed: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the form as they were typed. A box that is not checked sends nothing."""
    return {name: str(typed.get(name, "")) for name in to_form(DeploymentSettings()) | NEW_RUNNER}


def _wanted(form: Mapping[str, str]) -> NewCloudRunner:
    try:
        tree_path.name(form["name"].strip())
    except Invalid as error:
        raise Invalid(error.message, field="name") from None
    return forms.convert(
        {
            "name": form["name"].strip(),
            "group": form["group"],
            "identity": form["identity"],
            "description": form["description"].strip(),
            "tags": forms.split(form["tags"]),
            "assign": form["assign"] == "true",
            "settings": from_form(form),
        },
        NewCloudRunner,
    )


async def _answer(
    request: DashboardCall, form: Mapping[str, str], wrong: dict[str, str], fragment: str = ""
) -> Response[Any]:
    image = request.context.cloud_runner_image

    async def read(tx: Tx, who: Principal) -> DeployPage:
        offered, groups = await _identities(tx, who), await forms.offer_groups(tx, who, Verb.RUNNER_WRITE)
        return DeployPage(form, offered, groups, _costs(form, offered), bool(image))

    found = await request.read(read)
    shown: dict[str, Any] = {"wrong": wrong, "sizes": sizes(form["size"]), "architectures": ARCHITECTURES}
    return await render.page(request, "runners/deploy", fragment, page=found, **shown)


async def _identities(tx: Tx, who: Principal) -> list[IdentityChoice]:
    """Return the identities that the reader may see, by path."""
    found = await identities.listing(tx, who, None, MAX_IDENTITIES)
    return sorted((_choice(each) for each in found.items), key=lambda each: each.path)


def _choice(record: IdentityRecord) -> IdentityChoice:
    cloud = record.settings
    if isinstance(cloud, AwsAccount):
        return IdentityChoice(record.path, "aws", cloud.role_arn.split(":")[4], cloud.region)
    return IdentityChoice(record.path, "kubernetes", cloud.namespace, "")


def _chosen(offered: list[IdentityChoice], path: str) -> IdentityChoice | None:
    return next((each for each in offered if each.path == path), offered[0] if offered else None)


def _costs(form: Mapping[str, str], offered: list[IdentityChoice]) -> Costs:
    """Return what the runner would cost; with settings that are not valid yet, what the usual ones cost."""
    chosen = _chosen(offered, form["identity"])
    try:
        wanted = from_form(form)
    except Invalid:
        wanted = DeploymentSettings()
    kind, region = (chosen.kind, chosen.region) if chosen else ("aws", "")
    return costs_of(kind, region, wanted)


def to_form(settings: DeploymentSettings) -> dict[str, str]:
    """Return a deployment as its form shows it."""
    size, minutes = f"{settings.cpu_units}/{settings.memory_mb}", f"{settings.idle_seconds / MINUTE_SECONDS:g}"
    return field_forms.to_form(_SHOWN, settings) | {"size": size, "idle_minutes": minutes}


def from_form(typed: Mapping[str, str]) -> DeploymentSettings:
    """Return what was typed as settings. A box that is not checked sends nothing. Raises FormErrors."""
    cpu_units, _, memory_mb = typed.get("size", "").partition("/")
    texts = {"cpu_units": cpu_units, "memory_mb": memory_mb, "idle_seconds": _seconds(typed.get("idle_minutes", ""))}
    texts = {each.name: typed.get(each.name, "") for each in _SHOWN} | texts
    try:
        return field_forms.from_form(_SHOWN, texts, DeploymentSettings, DeploymentSettings())
    except FormErrors as error:
        raise FormErrors({_FIELDS.get(name, name): message for name, message in error.messages.items()}) from None


def _seconds(typed: str) -> str:
    try:
        return f"{round(float(typed) * MINUTE_SECONDS)}s" if typed.strip() else ""
    except (ValueError, OverflowError):
        raise FormErrors({"idle_minutes": "write a number of minutes"}) from None


def change(typed: Mapping[str, str]) -> DeployAgain:
    """Return what was typed as a change of a deployment. Raises FormErrors."""
    wanted = from_form(typed)
    return DeployAgain(**{each.name: getattr(wanted, each.name) for each in _SHOWN})


def place_error(error: Invalid) -> dict[str, str]:
    """Return the message of an error by the field of the form that it is about; under the empty name if that is not known."""
    if isinstance(error, FormErrors):
        return error.messages
    name = (error.field or "").removeprefix("settings.")
    name = _FIELDS.get(name, name)
    return {name: error.reason} if name in to_form(DeploymentSettings()) | NEW_RUNNER else {"": error.message}


def sizes(chosen: str) -> list[tuple[str, str]]:
    """Return the sizes that the form offers, with the one that is chosen."""
    found = [(f"{cpu}/{memory}", _size_words(cpu, memory)) for cpu, memory in _SIZES]
    cpu, _, memory = chosen.partition("/")
    is_known = any(value == chosen for value, _ in found)
    if not is_known and cpu.isascii() and cpu.isdecimal() and memory.isascii() and memory.isdecimal():
        found.append((chosen, _size_words(int(cpu[:9]), int(memory[:9]))))
    return found


def _size_words(cpu_units: int, memory_mb: int) -> str:
    return f"{cpu_units / VCPU_UNIT_COUNT:g} vCPU / {memory_mb / MEGABYTES_COUNT:g} GB"


def costs_of(kind: CloudKind, region: str, chosen: DeploymentSettings) -> Costs:
    """Return what a runner with these settings costs, asleep and awake."""
    if kind != "aws":
        return Costs(kind, max_instances=chosen.max_instances)
    return Costs(
        kind,
        prices.asleep_dollars_a_month(chosen),
        prices.awake_dollars_an_hour(region, chosen),
        chosen.max_instances,
        f"{prices.PUBLISHED_ON:%-d %b %Y}",
    )
