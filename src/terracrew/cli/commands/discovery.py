"""`terracrew discovery`: manages the rules that make modules from the folders of repositories, and shows what they find."""

import time

import click
import msgspec

from terracrew.api.discovery import (
    DiscoveredFolder,
    DiscoveryChange,
    DiscoveryPreview,
    DiscoveryRuleDetails,
    DiscoveryRuleView,
    NewDiscoveryRule,
)
from terracrew.cli.arguments import name_completion, settings
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output, progress
from terracrew.client.address import segment
from terracrew.errors import Unavailable
from terracrew.wording import discovery_words as words

MAX_FETCH_SECONDS = 900.0
"""How long a preview asks again while the server fetches the repository."""
PAUSE_SECONDS = 0.5
_rule = click.argument("rule", shell_complete=name_completion.discovery_rules)


@click.group("discovery", cls=LazyGroup)
def discovery() -> None:
    """Make modules from the folders of a repository that have a root configuration, and mark those whose folder is gone.

    RULE is the path of a rule (`group/name`) or its id.
    """


@discovery.command("list", epilog=output.examples("terracrew discovery list", "terracrew discovery list platform"))
@click.argument("group", required=False, default="", shell_complete=name_completion.groups)
@output.with_target
def list_rules(target: Target, group: str) -> output.CommandResult:
    """List the rules of GROUP itself; without it, all that you may see."""
    items = list(target.api().list("/discovery-rules", DiscoveryRuleView, group=group))
    rows = [
        (each.path, each.url, each.branch, _condition(each), words.counted(each.counts), output.age(each.looked_at))
        for each in items
    ]
    notes = [f"{each.path}: {each.problem}" for each in items if each.problem]
    empty = "no discovery rules: `terracrew discovery create GROUP NAME --url URL`"
    columns = ("RULE", "REPOSITORY", "BRANCH", "STATE", "FOLDERS", "LOOKED")
    return output.listing(items, columns, rows, empty=empty, notes=notes)


@discovery.command(
    "create",
    epilog=output.examples(
        "terracrew discovery create platform infra \\",
        "    --url https://github.com/acme/infra --include 'prod/*' --preview",
        "terracrew discovery create platform all \\",
        "    --url git@git.example.com:acme/infra.git --exclude '**/examples/**'",
    ),
)
@click.argument("group", shell_complete=name_completion.groups)
@click.argument("name")
@click.option("--preview", "is_preview", is_flag=True, help="Only show what the rule would make.")
@settings.request_options(NewDiscoveryRule, "new", own=("group", "name"), defaults=NewDiscoveryRule)
@output.with_target
def create(target: Target, new: NewDiscoveryRule, is_preview: bool) -> output.CommandResult:
    """Create a rule called NAME that makes modules in GROUP and below; `/` is the whole organization."""
    new = msgspec.structs.replace(new, group=new.group.strip("/"))
    if is_preview:
        return _shown(_ask(target, "/discovery-rules/preview", new))
    made = target.api().post("/discovery-rules", new, DiscoveryRuleView)
    return output.message(
        made, f"created the discovery rule {made.path}", f"Next: `terracrew discovery show {made.path}`"
    )


@discovery.command(
    "preview",
    epilog=output.examples(
        "terracrew discovery preview platform/infra",
        "terracrew discovery preview platform/infra --include 'prod/*'",
    ),
)
@_rule
@settings.request_options(DiscoveryChange)
@output.with_target
def preview(target: Target, rule: str, change: DiscoveryChange) -> output.CommandResult:
    """Show what RULE makes of the newest commit, or would make after a change. Nothing is made."""
    return _shown(_ask(target, f"{_api_path(rule)}/preview", change))


@discovery.command("show", epilog=output.examples("terracrew discovery show platform/infra"))
@_rule
@output.with_target
def show(target: Target, rule: str) -> output.CommandResult:
    """Show RULE with the folders that it has found, and what became of each."""
    found = target.api().get(_api_path(rule), DiscoveryRuleDetails)

    def print_all() -> None:
        output.facts(
            [
                ("rule", found.path),
                ("id", found.id),
                ("repository", found.url),
                ("branch", found.branch or "the default branch"),
                ("engine", " ".join(filter(None, (found.engine, found.engine_version)))),
                ("folders", found.include),
                ("left out", found.exclude),
                ("path of modules", found.module_path),
                ("tags", found.tags),
                ("credential", found.credential),
                ("needs approval", "yes" if found.needs_approval else "no"),
                ("plans new modules", "yes" if found.plans_new else "no"),
                ("state", _condition(found)),
                ("problem", found.problem),
                ("commit", found.commit_id[:12]),
                ("looked", output.age(found.looked_at)),
                ("found", words.counted(found.counts)),
                ("made by", found.created_by_name),
            ]
        )
        _print_folders(found.folders)

    return output.CommandResult(found, print_all)


@discovery.command(
    "update",
    epilog=output.examples(
        "terracrew discovery update platform/infra --exclude '**/test/**'",
        "terracrew discovery update platform/infra --no-enabled",
    ),
)
@_rule
@settings.request_options(DiscoveryChange)
@output.with_target
def update(target: Target, rule: str, change: DiscoveryChange) -> output.CommandResult:
    """Change RULE. Modules that it has made stay as they are."""
    settings.read_changes(change)
    made = target.api().patch(_api_path(rule), change, DiscoveryRuleView)
    return output.message(made, f"changed the discovery rule {made.path}")


@discovery.command("run", epilog=output.examples("terracrew discovery run platform/infra"))
@_rule
@output.with_target
def run(target: Target, rule: str) -> output.CommandResult:
    """Let RULE look at its repository now."""
    made = target.api().post(f"{_api_path(rule)}/run", {}, DiscoveryRuleView)
    return output.message(
        made, f"the discovery rule {made.path} looks at its repository", f"Next: `terracrew discovery show {made.path}`"
    )


@discovery.command("delete", epilog=output.examples("terracrew discovery delete platform/infra"))
@_rule
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.with_target
def delete(target: Target, rule: str, yes: bool) -> output.CommandResult:
    """Delete RULE. The modules that it has made stay."""
    if not yes:
        output.ask(f"The discovery rule {rule} is deleted. The modules that it has made stay.", "Not deleted.")
    target.api().delete(_api_path(rule))
    return output.message({"deleted": rule}, f"deleted the discovery rule {rule}")


def _ask(target: Target, path: str, request: msgspec.Struct) -> DiscoveryPreview:
    """Ask for a preview. The server may have to fetch the repository first."""
    api, until = target.api(), time.monotonic() + MAX_FETCH_SECONDS
    with progress.of_bytes() as report:
        while True:
            report("Looking at the repository", 0, 0)
            try:
                return api.post(path, request, DiscoveryPreview)
            except Unavailable as error:
                if not error.details.get("is_fetching") or time.monotonic() > until:
                    raise
            time.sleep(PAUSE_SECONDS)


def _shown(found: DiscoveryPreview) -> output.CommandResult:
    new = sum(each.state == "new" for each in found.folders)

    def print_all() -> None:
        _print_folders(found.folders)
        if found.problem:
            output.note(f"Nothing is made: {found.problem}")
        else:
            modules = "1 module" if new == 1 else f"{new:,} modules"
            output.note(f"{modules} would be made of {found.branch} at {found.commit_id[:12]}. Nothing was made.")

    return output.CommandResult(found, print_all, exit_code=0)


def _print_folders(folders: list[DiscoveredFolder]) -> None:
    rows = [(each.folder or words.TOP, each.path, words.STATES[each.state], each.reason) for each in folders]
    output.table(("FOLDER", "MODULE", "STATE", "WHY"), rows, empty="no folder with a root configuration was found")


def _condition(found: DiscoveryRuleView) -> str:
    is_looked_at = found.looked_at is not None
    return words.condition(found.problem, found.counts, is_enabled=found.is_enabled, is_looked_at=is_looked_at)


def _api_path(rule: str) -> str:
    return f"/discovery-rules/{segment(rule)}"
