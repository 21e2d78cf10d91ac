"""The inputs of a module as variables, which an engine at a prompt reads for a plan of its own."""

import json

from litestar import Response, get
from litestar.params import FromPath

from terracrew.api.inputs import InputView
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.tfe import json_api, workspaces
from terracrew.server.tfe.context import TfeCall
from terracrew.server.tfe.json_api import ApiResource, Attributes
from terracrew.server.tree.inputs import service as inputs
from terracrew.server.tree.modules import places


class _VariableAttributes(Attributes, frozen=True, kw_only=True):
    key: str
    value: str | None
    category: str
    hcl: bool
    sensitive: bool
    description: str = ""


@get("/workspaces/{module:str}/vars")
async def list_variables(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    """List what applies to a module. Secrets, variables of the environment and outputs of other modules have no value here."""
    return await _answer(request, module)


@get("/workspaces/{module:str}/all-vars")
async def list_all_variables(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    """The same, under the address that newer clients use: inputs of the groups above are always included."""
    return await _answer(request, module)


async def _answer(request: TfeCall, module: str) -> Response[bytes]:
    who, keys = request.user, request.context.keys

    async def read(tx: Tx) -> list[InputView]:
        found = await workspaces.find(tx, who, module, Verb.TREE_READ)
        at = await places.find(tx, who, found.path)
        return await inputs.views(tx, keys, who, at, is_inherited=True)

    found = [each for each in await request.context.db.read_in_background(read) if each.target != "file"]
    items = [_variable(module, each) for each in found]
    return json_api.answer_list(items, 1, max(1, len(items)), len(items))


def _variable(module_id: str, each: InputView) -> ApiResource:
    is_shown = each.kind == "literal" and each.target == "variable"
    is_text = isinstance(each.value, str)
    attributes = _VariableAttributes(
        key=each.name,
        value=None if not is_shown else each.value if is_text else json.dumps(each.value),
        category="terraform" if each.target == "variable" else "env",
        hcl=is_shown and not is_text,
        sensitive=not is_shown,
    )
    return ApiResource("vars", f"{module_id}.{each.target}.{each.name}", attributes)
