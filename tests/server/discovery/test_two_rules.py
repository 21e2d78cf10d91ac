"""Several rules of one repository make one module of a folder, whichever of them comes first."""

import asyncio
from typing import Any

import pytest

from terracrew.server.discovery import making
from tests.server.application import on_one
from tests.server.discovery.found import ROOT, Found


async def folders(found: Found) -> list[str]:
    return sorted(each["source"]["subdirectory"] for each in (await found.modules()).values())


@pytest.mark.feature("F6.kept")
async def test_two_rules_that_look_at_the_same_time_make_one_module_of_a_folder(
    found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    await found.rule()
    await found.rule(name="flat", module_path="{flat}")
    carry_out, both_have_planned = making.carry_out, asyncio.Barrier(2)

    async def together(*arguments: Any) -> Any:
        await asyncio.wait_for(both_have_planned.wait(), 10)
        return await carry_out(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(making, "carry_out", together)
        await asyncio.gather(*(each.step() for each in found.loops))
    assert await folders(found) == ["prod/app", "prod/network"]
    states = [await found.states("team/all"), await found.states("team/flat")]
    assert {*(each["prod/app"] for each in states)} == {"made", "kept"}
    assert {*(each["prod/network"] for each in states)} == {"made", "kept"}


@on_one
@pytest.mark.feature("F6.kept")
async def test_a_module_that_somebody_has_given_a_new_folder_is_the_module_of_that_folder(found: Found) -> None:
    await found.rule()
    await found.step()
    network = (await found.modules())["team/prod/network"]
    found.repository.git("mv", "prod/network", "prod/net")
    source = network["source"] | {"subdirectory": "prod/net"}
    await found.app.admin.patch(f"/api/v1/modules/{network['id']}", json={"source": source})
    await found.push()
    assert await folders(found) == ["prod/app", "prod/net"]
    assert (await found.states())["prod/net"] == "kept"


@pytest.mark.feature("F6.kept")
async def test_similar_folders_are_different_ones(found: Found) -> None:
    found.write("a_b/d", ROOT)
    found.write("axb/d", ROOT)
    found.write("", ROOT)
    found.repository.commit("more")
    await found.rule(exclude=["prod/**"])
    await found.step()
    found.write("b", ROOT)
    await found.push()
    assert set(await found.modules()) == {"team/a-b/d", "team/axb/d", "team/b", "team/infra"}
    assert await folders(found) == ["", "a_b/d", "axb/d", "b"]
