"""What an import makes of names and variables, and of what is there: pure decisions."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from terracrew.api.inputs import NewInput
from terracrew.api.modules import Module, NewModule
from terracrew.api.states import State
from terracrew.cli.commands.importing import existing, folders, hcp, hcp_variables, spelling
from terracrew.cli.commands.importing.existing import Existing, FoundModule
from terracrew.cli.commands.importing.hcp_facts import (
    HcpOrganization,
    HcpProject,
    HcpRepository,
    HcpStateVersion,
    HcpVariable,
    HcpVariableSet,
    HcpWorkspace,
    HcpWorkspaceAttributes,
)
from terracrew.cli.commands.importing.model import (
    HandSetInput,
    ImportedGroup,
    ImportedModule,
    ImportPlan,
    StateOrigin,
)
from terracrew.errors import Invalid
from terracrew.protocol.spec import ArchiveSource, GitSource

pytestmark = pytest.mark.feature("P6.kept")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LABEL = spelling.label("here/acme/ws-1")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Shop_Prod", "shop-prod"),
        ("--Shop  & Co.--", "shop-co"),
        ("9 lives", "9-lives"),
        ("a" * 62 + "-b", "a" * 62),
        ("../etc", "etc"),
        ("\x1b[31mred", "31mred"),
    ],
)
def test_a_name_is_always_spelled_in_the_same_way(text: str, name: str) -> None:
    assert spelling.name(text) == name
    assert spelling.name(name) == name


@pytest.mark.parametrize("text", ["", "---", "日本", "/"])
def test_a_name_without_letters_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="no letter or digit"):
        spelling.name(text)


def imported(path: str, origin: str = "x", state: StateOrigin | None = None) -> ImportedModule:
    return ImportedModule(
        origin=origin,
        new=NewModule(path=path, source=ArchiveSource(""), labels=[LABEL]),
        inputs=(NewInput("a", path, "variable", 1),),
        by_hand=(HandSetInput(path, "variable", "secret"),),
        state=state,
    )


def test_names_that_become_the_same_are_all_refused() -> None:
    found = spelling.without_collisions(
        [
            imported("a/b", "B"),
            imported("a/b", "b"),
            imported("a", "a"),
            imported("c", "c"),
            imported("/".join("x" * 21)),
        ],
        [],
    )
    problems = [each.problem for each in found]
    assert problems[0] == problems[1] == "B, b would all become a/b: give them different names at their source"
    assert "the path of a group" in problems[2]
    assert problems[3] == ""
    assert "levels deep" in problems[4]


def there(path: str, *labels: str, serial: int | None = None, lineage: str = "l", **more: bool) -> FoundModule:
    module = Module(
        id="mod_1",
        organization_id="org_1",
        group_id="grp_1",
        name=path,
        path=path,
        runner_id=None,
        state_version=0 if serial is None else 1,
        created_at=NOW,
        source=ArchiveSource(""),
        labels=list(labels),
    )
    state = None
    if serial is not None:
        state = State("sta_1", "mod_1", "current", "job_1", 1, 1, "engine", serial, lineage, "0", 1, NOW, 1)
    return FoundModule(module=module, state=state, **more)  # pyright: ignore[reportArgumentType]


def decided(module: ImportedModule, found: FoundModule | None) -> existing.ModuleDecision:
    modules = {} if found is None else {module.path: found}
    [decision] = existing.decide(ImportPlan("x", (), (module,)), Existing({"": frozenset()}, modules)).modules
    return decision


@pytest.mark.parametrize(
    ("serial", "lineage", "known", "action", "words"),
    [
        (None, "l", "l", "import", ""),
        (1, "l", "l", "import", ""),
        (1, "l", "", "import", ""),
        (2, "l", "l", "same", ""),
        (3, "l", "l", "same", "the state here is newer: serial 3, and 2 at the source"),
        (1, "other", "l", "refused", "another lineage"),
    ],
)
def test_a_state_is_replaced_only_by_a_later_one_of_its_lineage(
    serial: int | None, lineage: str, known: str, action: str, words: str
) -> None:
    module = imported("a", state=StateOrigin("ws-1", 2, known))
    decision = decided(module, there("a", LABEL, serial=serial, lineage=lineage))
    assert decision.state.action == action
    assert words in decision.state.reason
    assert decision.needs_lock == (action == "import")


def test_only_a_module_of_the_same_import_is_completed() -> None:
    module = imported("a", state=StateOrigin("ws-1", 2, "l"))
    assert decided(module, None).action == "create"
    foreign = decided(module, there("a", "app", serial=1))
    assert (foreign.action, foreign.inputs, foreign.state.action) == ("refused", (), "none")
    assert LABEL in foreign.reason
    half = decided(module, there("a", "app", LABEL, serial=2))
    assert (half.action, [each.name for each in half.inputs], half.needs_lock) == ("complete", ["a"], False)
    inputs = frozenset({("variable", "a"), ("variable", "secret")})
    whole = FoundModule(there("a", LABEL).module, there("a", serial=2).state, inputs)
    assert (decided(module, whole).action, decided(module, whole).by_hand) == ("exists", ())
    left = FoundModule(whole.module, whole.state, inputs, is_locked_by_import=True)
    assert (decided(module, left).action, decided(module, left).needs_lock) == ("complete", True)


def test_a_group_is_made_only_for_a_module_that_is_made() -> None:
    """An import whose modules were all refused left empty groups."""
    made, refused = [
        ImportedModule(origin=name, new=NewModule(path=f"{name}/m", source=ArchiveSource("")), problem=problem)
        for name, problem in (("good", ""), ("bad", "its state is empty"))
    ]
    groups = tuple(ImportedGroup(path) for path in ("bad", "good", "here"))
    found = existing.decide(ImportPlan("s", groups, (made, refused)), Existing({"here": frozenset()}))
    assert [each.group.path for each in found.groups] == ["good", "here"]
    assert found.refused == 1
    only = existing.decide(ImportPlan("s", (ImportedGroup("bad"),), (refused,)), Existing())
    assert not only.has_work


@pytest.mark.parametrize("text", ["Live", "a b", "../x", "a//b"])
def test_a_group_that_cannot_exist_is_refused_before_anything_is_made(text: str) -> None:
    with pytest.raises(Invalid, match=r"--into: .* is not the path of a group"):
        spelling.group(text, "")
    assert [spelling.group(each, "My Org") for each in ("/", "", "/live/shop/")] == ["", "my-org", "live/shop"]


def test_a_folder_outside_of_git_is_refused_with_the_option_that_helps(tmp_path: Path) -> None:
    """The options were named by the error, and the report left them out."""
    (tmp_path / "main.tf").write_text("")
    (tmp_path / "terraform.tfstate").write_text('{"version": 4, "serial": 1, "lineage": "x"}')
    [module] = folders.plan(folders.find([tmp_path]), tmp_path, "", "git", "tofu").modules
    assert "`--source archive` uploads the folders" in module.problem


def test_copies_of_one_state_are_not_imported_as_two_modules(tmp_path: Path) -> None:
    state = '{"version": 4, "serial": 1, "lineage": "%s", "resources": []}'
    for name, lineage in (("a", "one"), ("b", "one"), ("c", "other")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.tf").write_text("")
        (tmp_path / name / "terraform.tfstate").write_text(state % lineage)
    found = folders.plan(folders.find([tmp_path]), tmp_path, "", "archive", "tofu")
    assert ["copies of one state" in each.problem for each in found.modules] == [True, True, False]


def test_what_was_imported_as_another_module_is_not_imported_again() -> None:
    """A second import into another group made a second module for the same resources."""
    module = imported("b/a", state=StateOrigin("ws-1", 2, "l"))
    there = Existing({"": frozenset()}, {}, {LABEL: "other/a"})
    [decision] = existing.decide(ImportPlan("x", (), (module,)), there).modules
    assert decision.action == "refused"
    assert "was imported as other/a" in decision.reason


def test_a_state_that_a_job_has_written_from_nothing_is_compared_with_that_of_the_source() -> None:
    """Its serial alone was compared, so an import said that a state was here which was another one."""
    module = imported("a", state=StateOrigin("ws-1", 2))
    found = msgspec.structs.replace(there("a", LABEL, serial=5), is_state_imported=False)
    decision = decided(module, found)
    assert (decision.state.action, decision.needs_lock) == ("import", True)
    assert "compared" in decision.state.reason
    assert existing.state_decision(StateOrigin("ws-1", 2, "k"), found.state).action == "refused"


def test_a_group_gets_only_what_it_does_not_have() -> None:
    group = ImportedGroup("a", "", (NewInput("x", "a", "variable", 1), NewInput("y", "a", "variable", 1)))
    plan = ImportPlan("x", (group,), (imported("a"),))
    found = existing.decide(plan, Existing({"a": frozenset({("variable", "x")})}))
    assert [each.name for each in found.groups[0].inputs] == ["y"]
    assert not found.groups[0].is_new
    assert found.modules[0].reason == "a is a group here"


def variables(**values: str) -> tuple[HcpVariable, ...]:
    return tuple(HcpVariable(key, value) for key, value in values.items())


def workspace(name: str = "w", project: str = "p", **more: object) -> HcpWorkspace:
    given = {key: value for key, value in more.items() if key in HcpWorkspaceAttributes.__struct_fields__}
    rest = {key: value for key, value in more.items() if key not in given}
    attributes = HcpWorkspaceAttributes(name=name, **given)  # pyright: ignore[reportArgumentType]
    return HcpWorkspace(id=f"ws-{name}", attributes=attributes, project_id=project, **rest)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("has_priority", [False, True])
def test_variable_sets_take_precedence_as_they_do_at_their_source(has_priority: bool) -> None:
    """Without priority, the nearest decides; with it, the one for the most workspaces. Of equal ones, the first name does."""
    one = workspace(variables=variables(a="workspace", b="workspace"))
    sets = (
        HcpVariableSet(
            name="z", is_global=True, has_priority=has_priority, variables=variables(a="global", g="global")
        ),
        HcpVariableSet(name="p", project_ids=frozenset({"p"}), variables=variables(g="project", p="project")),
        HcpVariableSet(name="n", workspace_ids=frozenset({"ws-w"}), variables=variables(s="later", b="set")),
        HcpVariableSet(name="m", workspace_ids=frozenset({"ws-w"}), variables=variables(s="first")),
    )
    organization = HcpOrganization(host="h", name="o", variable_sets=sets, workspaces=(one,))
    layers = (
        hcp_variables.of_root(organization),
        hcp_variables.of_project(organization, "p"),
        hcp_variables.of_workspace(organization, one, has_group=True),
    )
    values = {name: each.value for layer in layers for (_, name), each in layer.items()}
    nearest = {"a": "workspace", "g": "project", "p": "project", "s": "first", "b": "workspace"}
    assert values == nearest | ({"a": "global", "g": "global"} if has_priority else {})
    assert ("terraform", "p") in hcp_variables.of_workspace(organization, one, has_group=False)


def test_workspaces_that_cannot_be_taken_over_as_they_are_say_so() -> None:
    projects = {"p": HcpProject("Web Shop"), "q": HcpProject("web_shop"), "r": HcpProject("!!!"), "s": HcpProject("ok")}
    elsewhere = HcpRepository(identifier="acme/x", service_provider="ado_services", branch="main")
    gitlab = HcpRepository(identifier="acme/x", service_provider="gitlab_hosted", branch="main", tags_regex="v.*")
    organization = HcpOrganization(
        host="h",
        name="o",
        projects=projects,
        workspaces=(
            workspace("a", "p"),
            workspace("b", "q"),
            workspace("c", "r"),
            workspace(
                "d", "s", vcs_repo=elsewhere, terraform_version="nightly!", execution_mode="agent", has_agents=True
            ),
            workspace(
                "e", "s", vcs_repo=gitlab, file_triggers_enabled=False, working_directory="x", labels=("~bad", "ok")
            ),
            workspace("f", "s", problem="its variables cannot be read", state=HcpStateVersion(1)),
            workspace("g", "", consumers=("d",), triggered_by=("e",), global_remote_state=True),
        ),
    )
    plan = hcp.plan(organization, "o", "terraform")
    assert [(each.origin, bool(each.problem)) for each in plan.modules] == [
        *[(name, True) for name in "abc"],
        *[(name, name == "f") for name in "defg"],
    ]
    assert "the projects Web Shop, web_shop would all become o/web-shop" in plan.modules[0].problem
    d, e, g = plan.modules[3], plan.modules[4], plan.modules[6]
    assert d.new.source == ArchiveSource("")
    assert "module update PATH --git URL" in d.remarks[0]
    assert any("not a range of versions" in each for each in d.remarks)
    assert any("agent pool" in each for each in d.remarks)
    assert e.new.source == GitSource(url="https://gitlab.com/acme/x", branch="main", subdirectory="x", submodules=False)
    assert e.new.watch == ["**"]
    assert e.new.labels[1:] == ["ok"]
    assert g.path == "o/g"
    assert any("start its runs" in each for each in g.remarks)
    assert "every workspace may read the states of g" in plan.remarks[0]
    assert [each.path for each in plan.groups] == ["o", "o/ok"]
