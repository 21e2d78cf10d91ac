"""`terracrew forge`: manages connections to forges, tests them, and shows what they watch and what was delivered."""

import io

import click

from terracrew.api.forges import (
    ForgeChange,
    ForgeDeliveryView,
    ForgeHookSecret,
    ForgeRepositoryView,
    ForgeTestRequest,
    ForgeTestResult,
    ForgeView,
    NewForge,
    NewForgeRepository,
)
from terracrew.api.pages import Page
from terracrew.api.pull_requests import ForgeUserView, LinkForgeUser
from terracrew.cli.arguments import name_completion, options, settings
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.wording import forge_words as words

_forge = click.argument("forge", shell_complete=name_completion.forges)
_COMMIT_CHARACTERS = 10


def _content(_context: click.Context, _option: click.Parameter, file: io.TextIOBase | None) -> str | None:
    """Return the secret in a file. Editors end a file with a line break, which is no part of it."""
    return None if file is None else file.read().strip()


_token_file = click.option(
    "--token-file",
    "token",
    type=click.File(),
    callback=_content,
    metavar="FILE",
    help="A file with the token that the connection uses; `-` reads it from the input.",
)
_private_key_file = click.option(
    "--private-key-file",
    "private_key",
    type=click.File(),
    callback=_content,
    metavar="FILE",
    help="GitHub: a file with the private key of the application, as PEM.",
)


@click.group("forge", cls=LazyGroup)
def forge() -> None:
    """Manage connections to GitHub, GitLab, Gitea, Forgejo and plain git.

    FORGE is the path of a connection (`group/name`) or its id.
    """


@forge.command("list", epilog=output.examples("terracrew forge list"))
@output.with_target
def list_forges(target: Target) -> output.CommandResult:
    """List connections, and whether each works."""
    items = list(target.api().list("/forges", ForgeView))
    rows = [
        (
            each.path,
            words.KINDS[each.kind],
            each.base_url,
            words.condition(each.problem, each.contacted_at),
            output.age(each.contacted_at),
            each.problem,
        )
        for each in items
    ]
    empty = "no connections: `terracrew forge create NAME --kind github --token-file FILE`"
    return output.listing(items, ("CONNECTION", "KIND", "ADDRESS", "STATE", "ANSWERED", "PROBLEM"), rows, empty=empty)


@forge.command(
    "create",
    epilog=output.examples(
        "terracrew forge create github --kind github --token-file token.txt",
        "terracrew forge create git --kind gitea --base-url https://git.example.com \\",
        "    --group platform --token-file token.txt",
        "terracrew forge test git --repository acme/network",
    ),
)
@click.argument("name")
@click.option("--kind", type=click.Choice(list(words.KINDS)), required=True, help="What it connects to.")
@options.group("The group whose modules it serves, and those below; by default the organization.", default="")
@_token_file
@_private_key_file
@settings.request_options(NewForge, "new", own=("name", "kind", "group", "token", "private_key"), defaults=NewForge)
@output.with_target
def create(target: Target, new: NewForge) -> output.CommandResult:
    """Create a connection called NAME. Secrets are read from files, because everybody on a machine can see arguments."""
    made = target.api().post("/forges", new, ForgeView)
    return output.message(
        made, f"created the connection {made.path} to {made.base_url}", f"Next: `terracrew forge test {made.path}`"
    )


@forge.command("show", epilog=output.examples("terracrew forge show platform/git"))
@_forge
@output.with_target
def show(target: Target, forge: str) -> output.CommandResult:
    """Show FORGE, what is wrong with it, and what its last test has found. Its secrets are never shown."""
    found = target.api().get(_api_path(forge), ForgeView)
    return output.details(
        found,
        [
            ("connection", found.path),
            ("id", found.id),
            ("description", found.description),
            ("kind", words.KINDS[found.kind]),
            ("address", found.base_url),
            ("owner", found.owner),
            ("application", found.app_id),
            ("user", found.username),
            ("makes hooks", "yes" if found.makes_hooks else "no"),
            ("merges", "yes" if found.merges else "no"),
            ("hooks deliver to", found.hook_url),
            ("state", words.condition(found.problem, found.contacted_at)),
            ("problem", found.problem),
            ("left alone until", output.moment(found.away_until)),
            ("last answer", output.age(found.contacted_at)),
            ("last delivery", output.age(found.delivered_at)),
            ("last wrong delivery", output.age(found.wrong_delivery_at)),
            ("last test", output.age(found.tested_at)),
            ("missing", [f"{each.name}: {each.message}" for each in found.findings if not each.is_good]),
            ("created", output.age(found.created_at)),
        ],
    )


@forge.command(
    "update",
    epilog=output.examples(
        "terracrew forge update platform/git --token-file new-token.txt", "terracrew forge update github --no-hooks"
    ),
)
@_forge
@_token_file
@_private_key_file
@settings.request_options(ForgeChange, own=("token", "private_key"))
@output.with_target
def update(target: Target, forge: str, change: ForgeChange) -> output.CommandResult:
    """Change FORGE. What is left out stays; a new token is used at once."""
    settings.read_changes(change)
    made = target.api().patch(_api_path(forge), change, ForgeView)
    return output.message(made, f"changed the connection {made.path}")


@forge.command("delete", epilog=output.examples("terracrew forge delete platform/git --yes"))
@_forge
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.with_target
def delete(target: Target, forge: str, yes: bool) -> output.CommandResult:
    """Delete FORGE, with everything that is known of its repositories. Modules and hooks stay."""
    if not yes:
        output.ask(f"The connection {forge} is deleted, and pull requests are not planned any more.", "Not deleted.")
    target.api().delete(_api_path(forge))
    return output.message({"deleted": forge}, f"deleted {forge}")


@forge.command("test", epilog=output.examples("terracrew forge test platform/git --repository acme/network"))
@_forge
@click.option("--repository", default="", metavar="NAME", help="The repository to test with [one that it watches].")
@output.with_target
def test(target: Target, forge: str, repository: str) -> output.CommandResult:
    """Ask FORGE what the connection may do, and say how to give what is missing. The exit code is 1 if something is.

    Nothing is changed there.
    """
    found = target.api().post(f"{_api_path(forge)}/test", ForgeTestRequest(repository=repository), ForgeTestResult)
    rows = [("ok" if each.is_good else "MISSING", each.name, each.message) for each in found.findings]
    about = f"tested with {found.repository}" if found.repository else "no repository is watched yet: give --repository"
    shown = output.listing(found, ("", "CHECK", ""), rows, empty="nothing to test", notes=[about])
    return output.CommandResult(found, shown.show, exit_code=0 if found.is_good else 1)


@forge.command("replace-hook-secret", epilog=output.examples("terracrew forge replace-hook-secret platform/git"))
@_forge
@output.with_target
def replace_hook_secret(target: Target, forge: str) -> output.CommandResult:
    """Make another secret for the hooks of FORGE, and print it this once, for hooks that you make by hand."""
    made = target.api().post(f"{_api_path(forge)}/hook-secret", {}, ForgeHookSecret)
    return output.message(
        made,
        made.secret,
        before=f"The hook delivers JSON to {made.url} with this secret, which is not shown again:",
    )


@forge.command("repositories", epilog=output.examples("terracrew forge repositories platform/git"))
@_forge
@output.with_target
def list_repositories(target: Target, forge: str) -> output.CommandResult:
    """List the repositories that FORGE watches, with the state of their hooks."""
    items = list(target.api().list(f"{_api_path(forge)}/repositories", ForgeRepositoryView))
    rows = [
        (
            each.name,
            each.default_branch,
            each.default_commit[:_COMMIT_CHARACTERS],
            str(each.open_pull_requests),
            words.HOOKS[each.hook_status],
            output.age(each.polled_at),
            each.problem or each.hook_message,
        )
        for each in items
    ]
    columns = ("REPOSITORY", "BRANCH", "COMMIT", "OPEN", "HOOK", "ASKED", "REMARK")
    empty = "no repositories: those that modules have as their sources are watched by themselves"
    return output.listing(items, columns, rows, empty=empty)


@forge.command("add-repository", epilog=output.examples("terracrew forge add-repository platform/git acme/network"))
@_forge
@click.argument("repository")
@output.with_target
def add_repository(target: Target, forge: str, repository: str) -> output.CommandResult:
    """Let FORGE watch REPOSITORY, such as acme/network, although no module has it as its source yet."""
    made = target.api().post(
        f"{_api_path(forge)}/repositories", NewForgeRepository(name=repository), ForgeRepositoryView
    )
    return output.message(made, f"{made.name} is watched")


@forge.command(
    "remove-repository", epilog=output.examples("terracrew forge remove-repository platform/git acme/network")
)
@_forge
@click.argument("repository")
@output.with_target
def remove_repository(target: Target, forge: str, repository: str) -> output.CommandResult:
    """Let FORGE give up REPOSITORY, which somebody has added. While modules have it as their source, it is still watched."""
    target.api().delete(f"{_api_path(forge)}/repositories/{segment(repository)}")
    return output.message({"removed": repository}, f"removed {repository}")


@forge.command("repair-hook", epilog=output.examples("terracrew forge repair-hook platform/git acme/network"))
@_forge
@click.argument("repository")
@output.with_target
def repair_hook(target: Target, forge: str, repository: str) -> output.CommandResult:
    """Make the hook of REPOSITORY, or repair and enable it. The exit code is 1 if there is none afterwards."""
    path = f"{_api_path(forge)}/repositories/{segment(repository)}/hook"
    found = target.api().post(path, {}, ForgeRepositoryView)
    remark = f": {found.hook_message}" if found.hook_message else ""
    said = f"the hook of {found.name} is {words.HOOKS[found.hook_status]}{remark}"
    return output.CommandResult(found, lambda: click.echo(said), exit_code=0 if found.hook_status == "enabled" else 1)


@forge.command("deliveries", epilog=output.examples("terracrew forge deliveries platform/git"))
@_forge
@options.limit(100, 50, "How many of the newest deliveries.")
@output.with_target
def list_deliveries(target: Target, forge: str, limit: int) -> output.CommandResult:
    """List what FORGE has delivered within the last week, the newest first, and what became of it."""
    items = target.api().get(f"{_api_path(forge)}/deliveries", Page[ForgeDeliveryView], limit=limit).items
    rows = [
        (each.id, output.age(each.received_at), each.event, each.about, words.delivery(each.handled_at, each.problem))
        for each in items
    ]
    return output.listing(
        items, ("DELIVERY", "AGE", "EVENT", "ABOUT", "STATE"), rows, empty="nothing was delivered yet"
    )


@forge.command("handle-again", epilog=output.examples("terracrew forge handle-again platform/git fdl_01890a5d-0000"))
@_forge
@click.argument("delivery")
@output.with_target
def handle_again(target: Target, forge: str, delivery: str) -> output.CommandResult:
    """Let the server ask FORGE again what DELIVERY was about; `deliveries` lists the ids."""
    path = f"{_api_path(forge)}/deliveries/{segment(delivery)}/handle-again"
    found = target.api().post(path, {}, ForgeDeliveryView)
    return output.message(found, f"{found.id} is handled again")


@forge.command("users", epilog=output.examples("terracrew forge users platform/git"))
@_forge
@output.with_target
def list_users(target: Target, forge: str) -> output.CommandResult:
    """List which users of FORGE are users here."""
    items = target.api().get(f"{_api_path(forge)}/users", Page[ForgeUserView]).items
    rows = [(each.forge_user, each.forge_user_id, each.user, output.age(each.linked_at)) for each in items]
    empty = "nobody: `terracrew forge link-user` lets people write commands in comments"
    return output.listing(items, ("FORGE USER", "ID", "USER", "LINKED"), rows, empty=empty)


@forge.command("link-user", epilog=output.examples("terracrew forge link-user platform/git ada-on-git ada"))
@_forge
@click.argument("forge_user")
@click.argument("user", shell_complete=name_completion.users)
@click.option(
    "--id",
    "forge_user_id",
    default="",
    metavar="ID",
    help="The forge's own id of the user, for one who is not known yet.",
)
@output.with_target
def link_user(target: Target, forge: str, forge_user: str, user: str, forge_user_id: str) -> output.CommandResult:
    """Let what FORGE_USER writes on FORGE be done as USER, with all of their rights."""
    asked = LinkForgeUser(forge_user=forge_user, user=user, forge_user_id=forge_user_id)
    made = target.api().post(f"{_api_path(forge)}/users", asked, ForgeUserView)
    return output.message(made, f"what {made.forge_user} ({made.forge_user_id}) writes there is done as {made.user}")


@forge.command("unlink-user", epilog=output.examples("terracrew forge unlink-user platform/git 4711"))
@_forge
@click.argument("forge_user_id")
@output.with_target
def unlink_user(target: Target, forge: str, forge_user_id: str) -> output.CommandResult:
    """Let the user of FORGE with this id act as nobody here any more; `users` lists the ids."""
    target.api().delete(f"{_api_path(forge)}/users/{segment(forge_user_id)}")
    return output.message({"unlinked": forge_user_id}, f"unlinked {forge_user_id}")


def _api_path(forge: str) -> str:
    """Return the path below which the API serves this connection, given its path or id."""
    return f"/forges/{segment(forge)}"
