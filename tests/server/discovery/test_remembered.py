"""What a rule remembers of the folders whose modules it has made, and what it says of those it makes none of."""

import pytest

from terracrew.errors import Forbidden, TerracrewError, Unavailable
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import decide, making
from tests.server.application import on_one
from tests.server.discovery.found import ROOT, Found

RULE = "/api/v1/discovery-rules/team%2Fall"


async def delete(found: Found, path: str) -> None:
    module = (await found.modules())[path]
    assert (await found.app.admin.delete(f"/api/v1/modules/{module['id']}")).status_code < 300


@on_one
@pytest.mark.feature("F6.kept")
async def test_a_deleted_module_is_not_made_again_after_a_rule_was_narrowed_and_widened(found: Found) -> None:
    await found.rule()
    await found.step()
    await delete(found, "team/prod/network")
    for exclude in (["prod/network"], []):
        await found.app.admin.patch(RULE, json={"exclude": exclude})
        await found.step()
        assert (await found.states())["prod/network"] == "deleted"
    assert "team/prod/network" not in await found.modules()
    found.remove("prod/network")
    await found.push()
    assert "prod/network" not in await found.states(), "it is forgotten when the folder is gone"


@on_one
@pytest.mark.feature("F6.kept")
async def test_a_deleted_module_is_not_made_again_after_its_folder_was_a_library_for_a_while(found: Found) -> None:
    await found.rule()
    await found.step()
    await delete(found, "team/prod/app")
    found.write("user", 'module "a" { source = "../prod/app" }\n')
    await found.push()
    found.remove("user")
    await found.push()
    assert "team/prod/app" not in await found.modules()
    assert (await found.states())["prod/app"] == "deleted"


@on_one
@pytest.mark.feature("F6.rule")
async def test_a_rule_makes_no_more_than_its_modules_with_many_commits(
    found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "MAX_MODULES", 3)
    await found.rule()
    await found.step()
    found.write("stage/a", ROOT)
    await found.push()
    assert len(await found.modules()) == 3
    assert (await found.show()).problem == ""
    found.write("stage/b", ROOT)
    await found.push()
    assert len(await found.modules()) == 3
    assert "has made 3 modules and would make 1 more, and a rule makes at most 3" in (await found.show()).problem
    await delete(found, "team/stage/a")
    found.clock.advance(301)
    await found.step()
    assert "team/stage/b" in await found.modules()


@on_one
@pytest.mark.feature("F6.rule")
@pytest.mark.parametrize("error", [Forbidden("the runner is not one of this group"), Unavailable("it is busy")])
async def test_what_is_wrong_with_one_folder_does_not_stop_the_others(
    found: Found, monkeypatch: pytest.MonkeyPatch, error: TerracrewError
) -> None:
    await found.rule()
    make, asked = making.modules.create, 0

    async def fails_once(tx: Tx, *arguments: object) -> object:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise error
        return await make(tx, *arguments)  # pyright: ignore

    with monkeypatch.context() as patched:
        patched.setattr(making.modules, "create", fails_once)
        await found.loops[0].step()
    if isinstance(error, Unavailable):
        assert asked == 1, "all of it is tried again soon"
        return
    assert set(await found.modules()) == {"team/prod/network"}
    [app, _] = (await found.show()).folders
    assert (app.state, app.reason) == ("invalid", error.message)
    found.clock.advance(301)
    await found.step()
    assert set(await found.modules()) == {"team/prod/app", "team/prod/network"}


@on_one
async def test_no_rule_of_the_organization_has_the_path_of_the_preview(found: Found) -> None:
    new = {"name": "preview", "group": "", "url": found.url}
    refused = await found.app.admin.post("/api/v1/discovery-rules", json=new)
    assert refused.status_code == 400
    assert "a rule of the organization cannot be called `preview`" in refused.text
    assert await found.rule(group="", name="all") == "all"
    refused = await found.app.admin.patch("/api/v1/discovery-rules/all", json={"name": "preview"})
    assert refused.status_code == 400
    assert await found.rule(name="preview") == "team/preview", "a rule of a group can be"
