"""The addresses of SCIM. Only the provisioner of an organization may use those of people and groups."""

from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, patch, post, put, route
from litestar.di import NamedDependency, Provide
from litestar.params import FromPath, FromQuery, QueryParameter

from terracrew.server.http.request import refuse_nul
from terracrew.server.identity.provisioning import service
from terracrew.server.identity.provisioning.model import GroupData, GroupSeen, PersonData, PersonSeen
from terracrew.server.scim import patches, resources, schemas
from terracrew.server.scim.context import ScimCall
from terracrew.server.scim.errors import ScimRefusal, answer

StartIndex = Annotated[int, QueryParameter(name="startIndex", ge=-1_000_000, le=10_000_000)]
Count = Annotated[int, QueryParameter(ge=-1_000_000, le=10_000_000)]
Excluded = Annotated[str, QueryParameter(name="excludedAttributes", max_length=1000)]
MAX_START_INDEX = 10_000_000
Filter = Annotated[str, QueryParameter(name="filter", max_length=2000)]


class ScimQuery(msgspec.Struct, frozen=True):
    """What a list is asked for."""

    filter: str
    first: int
    """The number of the first resource, from 1 on."""
    limit: int
    attributes: str
    excluded: str


def asked_for(
    start_index: StartIndex = 1,
    count: Count = schemas.DEFAULT_PAGE_ROWS,
    wanted: Filter = "",
    attributes: FromQuery[str] = "",
    excluded: Excluded = "",
) -> ScimQuery:
    """Return what a list is asked for. RFC 7644 has a meaning for each number (3.4.2.4)."""
    first, limit = min(max(1, start_index), MAX_START_INDEX), min(max(0, count), schemas.MAX_RESULTS)
    return ScimQuery(wanted, first, limit, attributes, excluded)


_ASKED = {"asked": Provide(asked_for, sync_to_thread=False)}


# What this interface is


@get("/ServiceProviderConfig", public=True)
async def show_config(request: ScimCall) -> Response[bytes]:
    return answer(schemas.service_provider_config(request.context.base))


@get("/ResourceTypes", public=True)
async def list_resource_types(request: ScimCall) -> Response[bytes]:
    return _all(schemas.resource_types(request.context.base))


@get("/ResourceTypes/{name:str}", public=True)
async def show_resource_type(request: ScimCall, name: FromPath[str]) -> Response[bytes]:
    return _named(schemas.resource_types(request.context.base), name)


@get("/Schemas", public=True)
async def list_schemas(request: ScimCall) -> Response[bytes]:
    return _all(schemas.schemas(request.context.base))


@get("/Schemas/{name:str}", public=True)
async def show_schema(request: ScimCall, name: FromPath[str]) -> Response[bytes]:
    return _named(schemas.schemas(request.context.base), name)


def _all(found: list[dict[str, Any]]) -> Response[bytes]:
    return answer(resources.listing(found, len(found), 1))


def _named(found: list[dict[str, Any]], name: str) -> Response[bytes]:
    one = next((each for each in found if each["id"] == name), None)
    if one is None:
        raise ScimRefusal(404, "there is nothing of this name")
    return answer(one)


# People


@get("/Users", dependencies=_ASKED)
async def list_users(request: ScimCall, asked: NamedDependency[ScimQuery]) -> Response[bytes]:
    return await _users(request, asked)


async def _users(request: ScimCall, asked: ScimQuery) -> Response[bytes]:
    total, found = await _find_users(request, asked)
    return answer(resources.listing(found, total, asked.first))


async def _find_users(request: ScimCall, asked: ScimQuery) -> tuple[int, list[dict[str, Any]]]:
    wanted = resources.lookup("users", asked.filter)
    if wanted is None:
        return 0, []
    total, found = await request.read(service.list_people, wanted, asked.first - 1, asked.limit)
    shown = (resources.person(each, request.context.base) for each in found)
    return total, [resources.projected(each, asked.attributes, asked.excluded) for each in shown]


@post("/Users", status_code=201)
async def create_user(request: ScimCall) -> Response[bytes]:
    data = resources.person_data(patches.read(await _document(request), schemas.USER_ATTRIBUTES))
    return _shown(resources.person(await request.write(service.create_person, data), request.context.base), 201)


@get("/Users/{user:str}")
async def show_user(
    request: ScimCall, user: FromPath[str], attributes: FromQuery[str] = "", excluded: Excluded = ""
) -> Response[bytes]:
    found = resources.person(await request.read(service.show_person, user), request.context.base)
    return _shown(resources.projected(found, attributes, excluded))


@put("/Users/{user:str}")
async def replace_user(request: ScimCall, user: FromPath[str]) -> Response[bytes]:
    given = patches.read(await _document(request), schemas.USER_ATTRIBUTES)

    def decide(seen: PersonSeen) -> PersonData:
        """Keep what `active` is if nothing is said of it: a replacement must not let somebody in again by the way."""
        return resources.person_data({"active": seen.is_active} | given)

    return _shown(resources.person(await request.write(service.change_person, user, decide), request.context.base))


@patch("/Users/{user:str}")
async def patch_user(request: ScimCall, user: FromPath[str]) -> Response[bytes]:
    document = await _document(request)

    def decide(seen: PersonSeen) -> PersonData:
        wanted = patches.apply(resources.person_attributes(seen), document, schemas.USER_ATTRIBUTES)
        return resources.person_data(wanted)

    return _shown(resources.person(await request.write(service.change_person, user, decide), request.context.base))


@delete("/Users/{user:str}", status_code=204)
async def delete_user(request: ScimCall, user: FromPath[str]) -> None:
    await request.write(service.delete_person, user)


# Groups


@get("/Groups", dependencies=_ASKED)
async def list_groups(request: ScimCall, asked: NamedDependency[ScimQuery]) -> Response[bytes]:
    return await _groups(request, asked)


async def _groups(request: ScimCall, asked: ScimQuery) -> Response[bytes]:
    total, found = await _find_groups(request, asked)
    return answer(resources.listing(found, total, asked.first))


async def _find_groups(request: ScimCall, asked: ScimQuery) -> tuple[int, list[dict[str, Any]]]:
    wanted = resources.lookup("groups", asked.filter)
    if wanted is None:
        return 0, []
    is_full = resources.has_members(asked.attributes, asked.excluded)
    total, found = await request.read(service.list_groups, wanted, asked.first - 1, asked.limit, has_members=is_full)
    shown = (resources.group(each, request.context.base) for each in found)
    return total, [resources.projected(each, asked.attributes, asked.excluded) for each in shown]


@post("/Groups", status_code=201)
async def create_group(request: ScimCall) -> Response[bytes]:
    data = resources.group_data(patches.read(await _document(request), schemas.GROUP_ATTRIBUTES))
    return _shown(resources.group(await request.write(service.create_group, data), request.context.base), 201)


@get("/Groups/{group:str}")
async def show_group(
    request: ScimCall, group: FromPath[str], attributes: FromQuery[str] = "", excluded: Excluded = ""
) -> Response[bytes]:
    is_full = resources.has_members(attributes, excluded)
    found = await request.read(service.show_group, group, has_members=is_full)
    return _shown(resources.projected(resources.group(found, request.context.base), attributes, excluded))


@put("/Groups/{group:str}")
async def replace_group(request: ScimCall, group: FromPath[str]) -> Response[bytes]:
    data = resources.group_data(patches.read(await _document(request), schemas.GROUP_ATTRIBUTES))
    changed = await request.write(service.change_group, group, lambda _: data)
    return _shown(resources.group(changed, request.context.base))


@patch("/Groups/{group:str}")
async def patch_group(request: ScimCall, group: FromPath[str]) -> Response[bytes]:
    document = await _document(request)

    def decide(seen: GroupSeen) -> GroupData:
        return resources.group_data(patches.apply(resources.group_attributes(seen), document, schemas.GROUP_ATTRIBUTES))

    return _shown(resources.group(await request.write(service.change_group, group, decide), request.context.base))


@delete("/Groups/{group:str}", status_code=204)
async def delete_group(request: ScimCall, group: FromPath[str]) -> None:
    await request.write(service.delete_group, group)


# Searches that are sent as a body, because a filter in an address ends up in logs


class SearchRequest(msgspec.Struct, frozen=True, rename="camel"):
    filter: str = ""
    start_index: int = 1
    count: int = schemas.DEFAULT_PAGE_ROWS
    attributes: list[str] = []
    excluded_attributes: list[str] = []


@post("/Users/.search", status_code=200)
async def search_users(request: ScimCall) -> Response[bytes]:
    return await _users(request, await _search(request))


@post("/Groups/.search", status_code=200)
async def search_groups(request: ScimCall) -> Response[bytes]:
    return await _groups(request, await _search(request))


@post("/.search", status_code=200)
async def search_all(request: ScimCall) -> Response[bytes]:
    """Search people and groups: the people come first."""
    asked = await _search(request)
    people_total, people = await _find_users(request, asked)
    first = max(1, asked.first - people_total)
    after_people = msgspec.structs.replace(asked, first=first, limit=asked.limit - len(people))
    groups_total, groups = await _find_groups(request, after_people)
    return answer(resources.listing([*people, *groups], people_total + groups_total, asked.first))


async def _search(request: ScimCall) -> ScimQuery:
    try:
        given = msgspec.convert(await _document(request), SearchRequest)
    except msgspec.ValidationError as error:
        raise ScimRefusal(400, f"the search is not valid: {error}", "invalidValue") from None
    names = ",".join(given.attributes), ",".join(given.excluded_attributes)
    return asked_for(given.start_index, given.count, given.filter, *names)


@route("/{rest:path}", http_method=["GET", "POST", "PUT", "PATCH", "DELETE"], status_code=404)
async def nothing(rest: FromPath[str]) -> Response[bytes]:
    """Answer in the form of this interface where there is nothing."""
    raise ScimRefusal(404, f"there is nothing at {rest[:100]!r}")


def _shown(resource: dict[str, Any], status: int = 200) -> Response[bytes]:
    headers = {"Location": resource["meta"]["location"]} if "meta" in resource else {}
    return answer(resource, status, headers)


async def _document(request: ScimCall) -> Any:
    body = await request.body()
    refuse_nul(body)
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ScimRefusal(400, "the body is not JSON", "invalidSyntax") from None
