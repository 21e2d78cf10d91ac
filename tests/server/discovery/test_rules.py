"""A rule makes modules from the folders of a repository that have a root configuration, and marks those whose folder is gone."""

import pytest

from tests.server.discovery.found import ROOT, Found


@pytest.mark.feature("F6.rule")
async def test_a_push_of_a_folder_makes_a_module_and_local_modules_make_none(found: Found) -> None:
    await found.rule()
    await found.step()
    assert set(await found.modules()) == {"team/prod/app", "team/prod/network"}
    module = (await found.modules())["team/prod/network"]
    assert (module["source"]["url"], module["source"]["subdirectory"]) == (found.url, "prod/network")
    assert module["engine"] == "tofu"
    found.write("prod/database", ROOT)
    commit = await found.push()
    assert set(await found.modules()) == {"team/prod/app", "team/prod/database", "team/prod/network"}
    shown = await found.show()
    assert (shown.commit_id, shown.problem) == (commit, "")
    assert shown.counts == {"made": 3}
