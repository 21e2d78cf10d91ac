"""Decides where the variables of workspaces and of variable sets become inputs, and which of them a person has to set."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from terracrew.api.inputs import NewInput
from terracrew.cli.commands.importing.hcp_facts import HcpOrganization, HcpVariable, HcpVariableSet, HcpWorkspace
from terracrew.cli.commands.importing.model import HandSetInput
from terracrew.engine_rules import flags, hcl_literals, input_names
from terracrew.errors import Invalid

FILE_NAME = "~imported.auto.tfvars"
"""The file with the variables whose values are no literals. Engines read it by its ending."""
_OF_HCP = re.compile(r"TFC_|TFE_|TF_WORKSPACE\Z")
"""What tells HCP Terraform how to log in to clouds, and which workspace to choose."""
Key = tuple[str, str]
"""The category and the name of a variable."""


class ImportedInputs(NamedTuple):
    inputs: tuple[NewInput, ...]
    by_hand: tuple[HandSetInput, ...]
    remarks: tuple[str, ...]


def of_root(organization: HcpOrganization) -> dict[Key, HcpVariable]:
    """Return the variables that all workspaces have, because their sets are global."""
    return _merged(each for each in organization.variable_sets if each.is_global)


def of_project(organization: HcpOrganization, project_id: str) -> dict[Key, HcpVariable]:
    """Return the variables that the workspaces of a project have by sets. A global set that has priority decides."""
    found = _merged(
        each for each in organization.variable_sets if not each.is_global and project_id in each.project_ids
    )
    return found | _overriding(organization.variable_sets, found, lambda each: each.is_global)


def of_workspace(organization: HcpOrganization, workspace: HcpWorkspace, *, has_group: bool) -> dict[Key, HcpVariable]:
    """Return the variables that a workspace has itself, or by sets that name it. Those of sets with priority decide.

    Without a group for its project, those that its project has are the workspace's own, too.
    """
    by_project = {} if has_group else of_project(organization, workspace.project_id)
    by_sets = _merged(
        each for each in organization.variable_sets if not each.is_global and workspace.id in each.workspace_ids
    )
    found = by_project | by_sets | {_key(each): each for each in workspace.variables}

    def applies(each: HcpVariableSet) -> bool:
        return each.is_global or workspace.project_id in each.project_ids or workspace.id in each.workspace_ids

    return found | _overriding(organization.variable_sets, found, applies)


def to_inputs(place: str, variables: dict[Key, HcpVariable]) -> ImportedInputs:
    """Return the inputs of a place."""
    inputs: list[NewInput] = []
    by_hand: list[HandSetInput] = []
    remarks: list[str] = []
    lines: list[str] = []
    for each in sorted(variables.values(), key=lambda one: (one.category, one.key)):
        target = "environment" if each.category == "env" else "variable"
        if problem := _problem(each):
            remarks.append(f"{each.category} variable {problem}")
        elif each.sensitive or each.value is None:
            by_hand.append(HandSetInput(place, target, each.key))
        elif target == "environment" or not each.hcl:
            inputs.append(NewInput(each.key, place, target, each.value))
        else:
            try:
                inputs.append(NewInput(each.key, place, target, hcl_literals.read(each.key, each.value)))
            except Invalid:
                lines.append(f"{each.key} = {each.value}\n")
    if lines:
        inputs.append(NewInput(FILE_NAME, place, "file", "".join(lines)))
    return ImportedInputs(tuple(inputs), tuple(by_hand), tuple(remarks))


def _problem(variable: HcpVariable) -> str:
    """Return why a variable cannot be an input; '' if it can."""
    name = variable.key
    if variable.category == "terraform":
        return input_names.problem_of_variable(name)
    if variable.category != "env":
        return f"{name!r} has the unknown category {variable.category!r}"
    if _OF_HCP.match(name):
        return f"{name}: it tells HCP Terraform how to run; cloud logins take its place here (docs/cloud.md)"
    if problem := input_names.problem_of_environment(name):
        return problem
    if variable.sensitive:
        return ""
    if "\0" in (variable.value or ""):
        return f"{name}: its value has a NUL character in it"
    try:
        flags.check_environment({name: variable.value or ""}, has_our_backend=True)
    except Invalid as error:
        return error.message.removeprefix("environment: ")
    return ""


def _key(variable: HcpVariable) -> Key:
    return variable.category, variable.key


def _merged(sets: Iterable[HcpVariableSet]) -> dict[Key, HcpVariable]:
    """Return the variables of sets of the same rank. The set whose name comes first decides, and one with priority before."""
    ordered = sorted(sets, key=lambda each: (not each.has_priority, each.name), reverse=True)
    return {_key(variable): variable for each in ordered for variable in each.variables}


def _overriding(
    sets: Sequence[HcpVariableSet], below: dict[Key, HcpVariable], applies: Callable[[HcpVariableSet], bool]
) -> dict[Key, HcpVariable]:
    """Return the variables of sets with priority that take the place of those that are nearer to the workspace.

    Of two such sets, the one for more workspaces decides, as HCP Terraform has it.
    """
    found: dict[Key, HcpVariable] = {}
    chosen = [each for each in sets if each.has_priority and applies(each)]
    for group in (
        [each for each in chosen if not each.is_global and not each.project_ids],
        [each for each in chosen if not each.is_global and each.project_ids],
        [each for each in chosen if each.is_global],
    ):
        found |= _merged(group)
    return {key: variable for key, variable in found.items() if key in below}
