"""`terracrew policy`: manages the policies that look at plans before they are applied."""

from typing import TextIO

import click
import msgspec

from terracrew.api.policies import (
    MAX_TESTED_PLANS,
    NewPlanPolicy,
    NewPolicyVersion,
    PolicyActivation,
    PolicyChange,
    PolicyDetails,
    PolicyTrial,
    PolicyTrialResult,
    PolicyVersionTrial,
    PolicyView,
)
from terracrew.cli.arguments import name_completion, settings
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.wording import policy_words as words
from terracrew.wording.escapes import plain

_policy = click.argument("policy", shell_complete=name_completion.policies)


def _text(_context: click.Context, _option: click.Parameter, file: TextIO | None) -> str | None:
    return None if file is None else file.read()


_FILE = click.File("r", encoding="utf-8")
_HELP = "The Rego; `-` reads standard input."


@click.group("policy", cls=LazyGroup)
def policy() -> None:
    """Look at plans by rules in Rego before they are applied.

    POLICY is the path of a policy (`place/name`) or its id.
    """


@policy.command("list", epilog=output.examples("terracrew policy list", "terracrew policy list platform/network"))
@click.argument("place", required=False, default=None, shell_complete=name_completion.groups)
@output.with_target
def list_policies(target: Target, place: str | None) -> output.CommandResult:
    """List the policies that look at the plans of PLACE, a group or a module; without it, all that you may see."""
    wanted = {} if place is None else {"place": place.strip("/") or "/"}
    items = list(target.api().list("/policies", PolicyView, **wanted))
    rows = [
        (each.path, words.STATES[each.state], words.version(each), words.enforcement(each), each.description)
        for each in items
    ]
    columns = ("POLICY", "STATE", "VERSION", "WHAT IT DENIES", "DESCRIPTION")
    return output.listing(items, columns, rows, empty="no policies: `terracrew policy create PLACE NAME --file FILE`")


@policy.command(
    "create",
    epilog=output.examples(
        "terracrew policy create / no-public-buckets --file buckets.rego",
        "terracrew policy create platform/prod deletions --file deletions.rego \\",
        "    --enforcement approvers --approvals 2 --role owner --activate",
    ),
)
@click.argument("place", shell_complete=name_completion.groups)
@click.argument("name")
@click.option("--file", "rego", type=_FILE, required=True, metavar="FILE", help=_HELP, callback=_text)
@click.option("--activate", "is_active", is_flag=True, help="Let it look at plans at once.")
@settings.request_options(
    NewPlanPolicy, "new", own=("place", "name", "rego"), without=("name",), defaults=NewPlanPolicy
)
@output.with_target
def create(target: Target, new: NewPlanPolicy, is_active: bool) -> output.CommandResult:
    """Create a policy called NAME of the group or module PLACE; `/` is the whole organization. It is a draft."""
    new = msgspec.structs.replace(new, place=new.place.strip("/"))
    made = target.api().post("/policies", new, PolicyView)
    if is_active:
        made = target.api().post(f"{_api_path(made.id)}/activate", PolicyActivation(version=1), PolicyView)
        return output.message(made, f"created the policy {made.path}, which looks at plans from now on")
    return output.message(
        made, f"created the policy {made.path}, a draft", f"Next: `terracrew policy activate {made.path}`"
    )


@policy.command("show", epilog=output.examples("terracrew policy show platform/prod/deletions"))
@_policy
@click.option("--version", type=click.IntRange(1), metavar="N", help="Show the Rego of this version.")
@output.with_target
def show(target: Target, policy: str, version: int | None) -> output.CommandResult:
    """Show POLICY with its versions, and the Rego of the one that is active, or else of the newest."""
    found = target.api().get(_api_path(policy), PolicyDetails)
    number = version or found.active_version or found.newest_version
    shown = next((each for each in found.versions if each.number == number), None)

    def print_all() -> None:
        output.facts(
            [
                ("policy", found.path),
                ("id", found.id),
                ("place", found.place or "the organization"),
                ("state", words.STATES[found.state]),
                ("what it denies", words.enforcement(found)),
                ("time zone", found.time_zone),
                ("description", found.description),
                ("made by", found.created_by_name),
            ]
        )
        rows = [
            (str(each.number), words.of_version(found, each.number), each.created_by_name, output.age(each.created_at))
            for each in found.versions
        ]
        output.table(("VERSION", "STATE", "BY", "AGE"), rows, empty="no version")
        if shown is None:
            output.note(f"There is no version {number}.")
        else:
            click.echo(f"\nVersion {shown.number}:\n")
            click.echo(plain(shown.rego).rstrip())

    return output.CommandResult(found, print_all, exit_code=0)


@policy.command(
    "update",
    epilog=output.examples(
        "terracrew policy update platform/prod/deletions --file new.rego --activate",
        "terracrew policy update platform/prod/deletions --enforcement advisory",
    ),
)
@_policy
@click.option("--file", "rego", type=_FILE, metavar="FILE", help=f"Add a version. {_HELP}", callback=_text)
@click.option("--activate", "is_active", is_flag=True, help="Let the new version look at plans at once.")
@settings.request_options(PolicyChange)
@output.with_target
def update(
    target: Target, policy: str, change: PolicyChange, rego: str | None, is_active: bool
) -> output.CommandResult:
    """Change POLICY, or add a version to it. A new version looks at no plan before it is activated."""
    api, path = target.api(), _api_path(policy)
    if rego is None:
        settings.read_changes(change)
    made = api.patch(path, change, PolicyView)
    if rego is not None:
        path = _api_path(made.id)
        made = api.post(f"{path}/versions", NewPolicyVersion(rego=rego), PolicyView)
        if is_active:
            made = api.post(f"{path}/activate", PolicyActivation(version=made.newest_version), PolicyView)
    return output.message(made, f"changed the policy {made.path}, {words.version(made)}")


@policy.command("activate", epilog=output.examples("terracrew policy activate platform/prod/deletions --version 2"))
@_policy
@click.option("--version", type=click.IntRange(1), metavar="N", help="The version; by default the newest one.")
@output.with_target
def activate(target: Target, policy: str, version: int | None) -> output.CommandResult:
    """Let a version of POLICY look at every plan before it is applied, from now on."""
    made = target.api().post(f"{_api_path(policy)}/activate", PolicyActivation(version=version), PolicyView)
    return output.message(made, f"version {made.active_version} of the policy {made.path} looks at plans from now on")


@policy.command(
    "test",
    epilog=output.examples(
        "terracrew policy test platform/prod --file deletions.rego --last 200",
        "terracrew policy test platform/prod/deletions --version 2",
    ),
)
@click.argument("what", metavar="PLACE|POLICY", shell_complete=name_completion.policies)
@click.option(
    "--file", "rego", type=_FILE, metavar="FILE", help=f"Try this on plans of a place. {_HELP}", callback=_text
)
@click.option("--version", type=click.IntRange(1), metavar="N", help="Try this version of a policy; else the newest.")
@click.option(
    "--last", type=click.IntRange(1, MAX_TESTED_PLANS), default=MAX_TESTED_PLANS, metavar="N", help="How many plans."
)
@click.option("--time-zone", default="UTC", metavar="ZONE", help="With --file: the zone of `input.time`.")
@output.with_target
def test(
    target: Target, what: str, rego: str | None, version: int | None, last: int, time_zone: str
) -> output.CommandResult:
    """Tell what a policy would have said about earlier plans.

    With --file, it is tried on plans of the group or module PLACE; otherwise a version of POLICY on those of its place.
    """
    api = target.api()
    if rego is not None:
        trial = PolicyTrial(place=what.strip("/"), rego=rego, last=last, time_zone=time_zone)
        found = api.post("/policies/test", trial, PolicyTrialResult)
    else:
        asked = PolicyVersionTrial(version=version, last=last)
        found = api.post(f"{_api_path(what)}/test", asked, PolicyTrialResult)

    def print_all() -> None:
        rows = [
            (f"#{each.number}", each.module_path, words.VERDICTS[each.verdict], words.messages(each.messages))
            for each in found.plans
        ]
        output.table(("JOB", "MODULE", "VERDICT", "MESSAGES"), rows, empty=words.trial(found))
        if rows:
            output.note(words.trial(found))

    return output.CommandResult(found, print_all, exit_code=0)


@policy.command("retire", epilog=output.examples("terracrew policy retire platform/prod/deletions"))
@_policy
@output.with_target
def retire(target: Target, policy: str) -> output.CommandResult:
    """Let POLICY look at no plan any more. It can be activated again."""
    made = target.api().post(f"{_api_path(policy)}/retire", {}, PolicyView)
    return output.message(made, f"retired the policy {made.path}")


@policy.command("delete", epilog=output.examples("terracrew policy delete platform/prod/deletions"))
@_policy
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.with_target
def delete(target: Target, policy: str, yes: bool) -> output.CommandResult:
    """Delete POLICY with its versions. What it has said about plans stays with their jobs."""
    if not yes:
        output.ask(f"The policy {policy} is deleted with its versions, and looks at no plan any more.", "Not deleted.")
    target.api().delete(_api_path(policy))
    return output.message({"deleted": policy}, f"deleted the policy {policy}")


def _api_path(policy: str) -> str:
    return f"/policies/{segment(policy)}"
