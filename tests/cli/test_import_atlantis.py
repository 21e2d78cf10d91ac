"""What an import makes of `atlantis.yaml`, in the forms of its documentation, and of files that are wrong or hostile."""

from pathlib import Path
from typing import Any

import pytest

from terracrew.cli.commands.importing import atlantis, atlantis_files, yaml_files
from terracrew.cli.commands.importing.atlantis_files import ServerRules
from terracrew.cli.commands.importing.model import ImportedModule, ImportPlan
from terracrew.errors import Invalid
from terracrew.protocol.spec import GitSource, Step

pytestmark = pytest.mark.feature("P6.atlantis")

EVERYTHING = """
version: 3
automerge: true
parallel_plan: true
projects:
- name: my-project-name
  branch: /main/
  dir: .
  workspace: default
  terraform_distribution: terraform
  terraform_version: v0.11.0
  delete_source_branch_on_merge: true
  repo_locks:
    mode: on_plan
  custom_policy_check: false
  autoplan:
    when_modified: ["*.tf", "../modules/**/*.tf", ".terraform.lock.hcl", "!docs/*"]
    enabled: true
  plan_requirements: [mergeable]
  apply_requirements: [mergeable, approved, undiverged]
  import_requirements: [mergeable]
  silence_pr_comments: ["apply"]
  execution_order_group: 1
  depends_on:
  - project-1
  workflow: myworkflow
workflows:
  myworkflow:
    plan:
      steps:
      - run: my-custom-command arg1 arg2
      - init
      - plan:
          extra_args: ["-lock", "false", "-var-file", "env/$WORKSPACE.tfvars"]
      - run: my-custom-command arg1 arg2
    apply:
      steps:
      - run: echo $PROJECT_NAME $PULL_NUM
      - apply
"""


def planned(text: str, server: str = "", url: str = "https://github.com/acme/infra.git", **more: Any) -> ImportPlan:
    given, unknown = atlantis_files.file(yaml_files.parse(text.encode()))
    there = atlantis.AtlantisRepository(url, "")
    rules = atlantis_files.server_rules(yaml_files.parse(server.encode()), there.id) if server else ServerRules()
    return atlantis.plan(given, there, rules, "infra", **{"has_own_backend": True} | more, unknown=unknown)


def only(plan: ImportPlan) -> ImportedModule:
    [found] = plan.modules
    return found


def test_every_setting_of_a_project_is_taken_over_or_named() -> None:
    plan = planned(EVERYTHING)
    module = only(plan)
    new = module.new
    assert (module.problem, new.path, new.source) == (
        "",
        "infra/my-project-name",
        GitSource(url="https://github.com/acme/infra.git", branch="main"),
    )
    assert (new.engine, new.engine_version, new.backend) == ("terraform", "0.11.0", "own")
    assert (new.needs_approval, new.forge_approvals, new.pull_request_apply) == (True, True, "on_command_then_merge")
    assert new.watch == ["/*.tf", "/.terraform.lock.hcl", "!/docs/*"]
    steps = dict(module.steps)
    assert steps.keys() == {Step.INIT, Step.PLAN, Step.APPLY}
    before_init, before_apply = steps[Step.INIT].before, steps[Step.APPLY].before
    assert before_init is not None
    assert before_init.script == "#!/bin/sh\nset -e\nmy-custom-command arg1 arg2\n"
    assert steps[Step.PLAN].flags == {"terraform": ["-var-file=env/default.tfvars"]}
    assert steps[Step.PLAN].after is not None
    assert before_apply is not None
    assert "export PROJECT_NAME=my-project-name\n" in before_apply.script
    said = " ".join((*module.remarks, *plan.remarks))
    for words in (
        "`-lock` cannot be added",
        "leads out of the repository",
        "PULL_NUM",
        "`mergeable` is not asked",
        "depends on project-1",
        "execution_order_group 1",
        "plan_requirements mergeable",
        "parallel_plan",
    ):
        assert words in said


def test_patterns_that_a_module_cannot_have_are_named_and_not_dropped_in_silence() -> None:
    """Of 130 patterns, the last 30 were missing, and nothing said so."""
    patterns = [f"{number}.tf" for number in range(130)]
    long = "a" * 500
    plan = planned(f"version: 3\nprojects:\n- dir: .\n  autoplan: {{when_modified: [{long}, {', '.join(patterns)}]}}\n")
    [module] = plan.modules
    assert (len(module.new.watch), module.new.watch[0]) == (100, "/0.tf")
    said = " ".join(module.remarks)
    assert "it has 130 patterns of files, and a module has at most 100" in said
    assert "has more than 500 characters" in said


def test_projects_get_paths_of_their_folders_and_workspaces() -> None:
    plan = planned(
        """
version: 3
projects:
- &template
  dir: Project_1/live
  autoplan: {when_modified: ["../modules/**/*.tf", "*.tf*"]}
- <<: *template
  workspace: staging
  terraform_version: 1.10
- dir: .
  terraform_distribution: opentofu
  autoplan: {enabled: false}
- {dir: "live/*"}
- {dir: a, name: same}
- {dir: b, name: Same}
- {dir: ../outside}
- {dir: "***", name: "..."}
"""
    )
    paths = [(each.path, bool(each.problem)) for each in plan.modules]
    assert paths[:3] == [
        ("infra/project-1/live", False),
        ("infra/project-1/live-staging", False),
        ("infra/infra", False),
    ]
    assert all(is_refused for _, is_refused in paths[3:])
    problems = " ".join(each.problem for each in plan.modules)
    for words in ("discovery create", "Same, same would all become infra/same", "not in the repository"):
        assert words in problems
    one, staging, root = plan.modules[:3]
    assert one.new.watch == ["/Project_1/modules/**/*.tf", "/Project_1/live/*.tf*"]
    assert [(each.target, each.name, each.value) for each in staging.inputs] == [
        ("environment", "TF_WORKSPACE", "staging")
    ]
    assert staging.new.engine_version == "1.10", "a number of YAML would be 1.1"
    assert one.new.labels != staging.new.labels
    assert (root.new.engine, root.new.pull_request_plans) == ("tofu", False)
    kept_here = planned("version: 3\nprojects: [{dir: a, workspace: eu}]", has_own_backend=False)
    assert only(kept_here).inputs == ()
    assert "states here have no workspaces" in only(kept_here).remarks[0]


def test_workflows_become_hooks_flags_and_variables_or_a_refusal() -> None:
    plan = planned(
        """
version: 3
projects:
- {dir: a, workflow: variables}
- {dir: b, workflow: terragrunt}
- {dir: c, workflow: missing}
- {dir: d}
workflows:
  variables:
    plan:
      steps:
      - env: {name: TF_VAR_region, value: eu}
      - env: {name: TOKEN, command: "vault read token"}
      - env: {name: TF_DATA_DIR, value: /tmp}
      - multienv: ./env.sh
      - init: {extra_args: [-backend-config=env/x.tfvars]}
      - plan: {extra_args: ["-var-file", "$HOME/x.tfvars"]}
      - run: {command: "conftest test $SHOWFILE", output: hide}
      - show
    policy_check: {steps: [policy_check]}
  terragrunt:
    plan: {steps: [{run: terragrunt plan -out=$PLANFILE}]}
  default:
    apply: {steps: [{run: "./before.sh"}, apply, {run: "./after.sh"}]}
"""
    )
    variables, terragrunt, missing, default = plan.modules
    assert [(each.name, each.value) for each in variables.inputs] == [("TF_VAR_region", "eu")]
    assert dict(variables.steps)[Step.INIT].flags == {"terraform": ["-backend-config=env/x.tfvars"]}
    said = " ".join(variables.remarks)
    for words in (
        "TOKEN",
        "TF_DATA_DIR is set by Terracrew",
        "`multienv`",
        "needs a shell",
        "SHOWFILE",
        "policy_check",
    ):
        assert words in said
    assert "runs `terragrunt plan -out=$PLANFILE` in place of plan" in terragrunt.problem
    assert "its workflow missing is not in the file" in missing.problem
    [(step, settings)] = default.steps
    assert step is Step.APPLY
    assert settings.before is not None
    assert settings.after is not None


SERVER = """
repos:
- id: /.*/
  apply_requirements: [approved]
  workflow: guarded
  allowed_overrides: [workflow]
- id: github.com/acme/infra
  apply_requirements: [mergeable]
  allow_custom_workflows: false
  pre_workflow_hooks: [{run: ./generate.sh}]
workflows:
  guarded: {plan: {steps: [init, plan, {run: ./check.sh}]}}
"""


def test_what_the_server_of_atlantis_decides_comes_first() -> None:
    text = """
version: 3
projects: [{dir: a, apply_requirements: [approved]}, {dir: b, workflow: own}]
workflows: {own: {plan: {steps: [plan]}}}
"""
    plan = planned(text, SERVER)
    one, two = plan.modules
    assert not one.new.needs_approval, "the server does not let the repository say it"
    assert dict(one.steps).keys() == {Step.PLAN}
    assert "its workflow own is not in the file" in two.problem
    said = " ".join(plan.remarks)
    assert "do not count, because the server does not allow them" in said
    assert "hooks before and after workflows" in said
    elsewhere = planned(text, SERVER, url="git@git.example.com:acme/other.git").modules[0]
    assert elsewhere.new.needs_approval


def test_a_file_without_projects_leads_to_discovery() -> None:
    assert "terracrew discovery create" in planned("version: 3\nprojects:\n").remarks[0]


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
MERGES = "m0: &m0 {x: y}\n" + "".join(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}\n" for n in range(1, 60))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "most of them by aliases"),
        (MERGES, "most of them by aliases"),
        ("a: &a [*a]", "levels deep"),
        ("a: " + "[" * 10_000, "levels deep|not YAML"),
        ("a: !!python/object/apply:os.system [id]", "not YAML"),
        ("a: [", "not YAML"),
        ("- a", "not a mapping"),
        ("1: {2: 3}\nx: {[a]: b}", "not"),
        ("\x00", "not YAML"),
    ],
)
@pytest.mark.timeout(20)
def test_yaml_that_is_wrong_or_grows_is_refused(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        yaml_files.parse(text.encode())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: 2", "it has version 2"),
        ("version: 3\nprojects: 5", "not what Atlantis expects"),
        ("version: 3\nprojects: [{dir: [a]}]", "not what Atlantis expects"),
        ("version: 3\nprojects: [x]", "not what Atlantis expects"),
        ("version: 3\nworkflows: {a: {plan: {steps: [[x]]}}}", "not what Atlantis expects"),
    ],
)
def test_a_file_of_another_form_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        planned(text)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "atlantis.yaml"
    file.write_text("a: " + "x" * yaml_files.MAX_FILE_BYTES)
    with pytest.raises(Invalid, match=r"atlantis\.yaml has more than 2,097,152 bytes"):
        yaml_files.read(file, dict)
