"""Hooks and flags on the pages of groups and modules: what applies, from where, and how it is changed."""

import pytest

from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.tree.inputs.places import tree

SCRIPT = "#!/bin/sh\necho <checked>\n"
HOSTILE = '#!/bin/sh\n"><script>alert(1)</script>{{7*7}}\n'


@pytest.mark.feature("H1.scripts", "J7.flags", "U6.tree")
async def test_the_pages_show_which_hooks_and_flags_apply_and_where_they_come_from(application: Application) -> None:
    module_id = await tree(application)
    await application.admin.put("/api/v1/groups/platform/steps/plan", json={"before": {"script": HOSTILE}})
    flags = {"flags": {"tofu": ["-parallelism=5"]}, "after": {"command": ["notify", "a b"]}}
    await application.admin.put(f"/api/v1/modules/{module_id}/steps/apply", json=flags)
    await application.person("vera", "viewer", "platform")
    for name in ("admin", "vera"):
        someone = await logged_in(application, name)
        page = await someone.see(f"/dashboard/modules/{module_id}")
        assert "Hook before it" in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;{{7*7}}" in page
        assert ">platform</a>" in page
        assert "-parallelism=5" in page
        assert "[&#34;notify&#34;,&#34;a b&#34;]" in page
        assert ("/dashboard/steps/" in page) == (name == "admin")
    await someone.see(f"/dashboard/steps/{module_id}", 403)
    refused = await someone.submit(f"/dashboard/steps/{module_id}", step="plan", before=SCRIPT)
    assert refused.status_code == 403
    group = await application.scalar("SELECT id FROM groups WHERE path = 'platform'")
    page = await someone.see(f"/dashboard/groups/{group}")
    assert "Hook before it" in page
    assert "-parallelism=5" not in page, "what a module adds does not apply to its group"


@pytest.mark.feature("H1.scripts", "J7.flags")
async def test_hooks_and_flags_are_set_and_removed_on_their_page(application: Application) -> None:
    module_id = await tree(application)
    someone = await logged_in(application)
    here = f"/dashboard/steps/{module_id}"
    await someone.see(here)
    typed = {"before": SCRIPT.replace("\n", "\r\n"), "after": '["notify", "$(id)"]', "flags": "tofu:-parallelism=5\r\n"}
    page = (await someone.submit(here, step="plan", **typed)).text
    assert "&lt;checked&gt;" in page
    [added] = (await application.admin.get(f"/api/v1/modules/{module_id}/steps")).json()
    assert added["before"]["script"] == SCRIPT, "the line endings of browsers are not those of scripts"
    assert added["after"]["command"] == ["notify", "$(id)"]
    assert added["flags"] == {"tofu": ["-parallelism=5"]}
    again = await someone.see(f"{here}?step=plan")
    assert "tofu:-parallelism=5</textarea>" in again, "the form shows what is set"
    assert "tofu:-parallelism=5</textarea>" not in await someone.see(f"{here}?step=apply")
    await someone.see(f"{here}?step=nonsense")
    await someone.see("/dashboard/steps/platform%2Fnetwork%2Fvpc")
    page = (await someone.submit(f"{here}/remove", step="plan")).text
    assert "No hooks or flags" in page
    assert "adds nothing to plan" in (await someone.submit(f"{here}/remove", step="plan")).text


@pytest.mark.feature("H1.scripts", "J7.flags")
@on_one
@pytest.mark.parametrize(
    ("typed", "wrong"),
    [
        ({"before": "echo hello"}, "the first line of a script names its interpreter"),
        ({"before": '["make"'}, "a command is a JSON list of its arguments"),
        ({"before": '[["make"]]'}, "a command is a JSON list of its arguments"),
        ({"flags": "-parallelism=5"}, "does not say for which engine it is"),
        ({"flags": "tofu:-out=elsewhere"}, "Terracrew decides about it itself"),
        ({"flags": "tofu:-show-sensitive"}, "Terracrew decides about it itself"),
        ({"flags": "tofu:-var=db_password=hunter2-hunter2"}, "set it as a secret instead"),
        ({"flags": "tofu:; rm -rf /"}, "is not a flag"),
        ({}, "write a hook or a flag"),
    ],
)
async def test_what_cannot_run_is_refused_with_a_reason_and_kept_in_the_form(
    application: Application, typed: dict[str, str], wrong: str
) -> None:
    module_id = await tree(application)
    someone = await logged_in(application)
    await someone.see(f"/dashboard/steps/{module_id}")
    refused = await someone.submit(f"/dashboard/steps/{module_id}", step="plan", **typed)
    assert refused.status_code == 200
    assert wrong in refused.text
    assert (await application.admin.get(f"/api/v1/modules/{module_id}/steps")).json() == []
    missing = await someone.submit("/dashboard/steps/mod_00000000000000000000000000000000", step="plan", **typed)
    assert missing.status_code == 404
    nonsense = await someone.submit(f"/dashboard/steps/{module_id}", step="fetch", before=SCRIPT)
    assert "is not a command of an engine" in nonsense.text
