"""`terracrew user`: manages users."""

import sys

import click

from terracrew.api.access import (
    CreatedUser,
    Ended,
    NewPassword,
    NewUser,
    OpenSession,
    PasswordChanged,
    User,
    UserChange,
    UserDetails,
    UserListed,
)
from terracrew.cli.arguments import name_completion, settings
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment


@click.group(cls=LazyGroup)
def user() -> None:
    """Manage users. A new user has no role: `terracrew role grant` grants one."""


@user.command("list")
@click.option("--search", metavar="TEXT", help="Only users whose names contain TEXT.")
@output.with_target
def list_users(target: Target, search: str | None) -> output.CommandResult:
    """List the users."""
    items = list(target.api().list("/users", UserListed, search=search))
    rows = [
        (i.name, _status(i), i.is_system_admin, output.age(i.last_login_at), output.age(i.created_at)) for i in items
    ]
    return output.listing(items, ("NAME", "STATUS", "ADMINISTRATOR", "LAST LOGIN", "CREATED"), rows, empty="no users")


@user.command("show")
@click.argument("name", default="me", shell_complete=name_completion.users)
@output.with_target
def show(target: Target, name: str) -> output.CommandResult:
    """Show the user NAME, or yourself without NAME."""
    found = target.api().get(f"/users/{segment(name)}", UserDetails)
    roles = [f"{each.role} of {each.path or 'the organization'}" for each in found.roles]
    return output.details(
        found,
        [
            ("name", found.name),
            ("id", found.id),
            ("status", _status(found)),
            ("administrator", found.is_system_admin),
            ("roles", roles or "none"),
            ("sessions", found.sessions),
            ("API tokens", found.tokens),
            ("last login", output.age(found.last_login_at)),
            ("created", output.age(found.created_at)),
        ],
    )


@user.command(
    "create",
    epilog=output.examples(
        "terracrew user create ada",
        "terracrew role grant ada operator --group platform",
    ),
)
@click.argument("name")
@settings.request_options(NewUser, "new", own=("name",))
@output.with_target
def create(target: Target, new: NewUser) -> output.CommandResult:
    """Create the user NAME and print a link with which they log in once and set a password."""
    name = new.name
    made = target.api().post("/users", new, CreatedUser)
    before = f"created {name}; this link works once:"
    if not made.link:
        before = (
            f"created {name} without a login link, which is a login and not for an API token: log in to the dashboard and reset "
            f"{name} there, or run `terracrew user reset {name}` on the server's machine"
        )
    notes = [] if new.is_system_admin else [f"give a role: terracrew role grant {name} operator --group PATH"]
    return output.message(made, made.link or "", *notes, before=before)


@user.command("update")
@click.argument("name", shell_complete=name_completion.users)
@settings.request_options(UserChange)
@output.with_target
def update(target: Target, name: str, change: UserChange) -> output.CommandResult:
    """Rename the user NAME, or decide whether they are an administrator of the server."""
    changes = settings.read_changes(change)
    made = target.api().patch(f"/users/{segment(name)}", change, User)
    return output.message(made, f"updated user {made.name}: {', '.join(changes)}")


@user.command("disable")
@click.argument("name", shell_complete=name_completion.users)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def disable(target: Target, name: str, yes: bool) -> output.CommandResult:
    """Disable the user NAME. Their sessions and tokens end at once."""
    if not yes:
        output.ask(f"Disable {name}? Their sessions and tokens end at once.", "Not disabled.")
    return _set_disabled(target, name, True)


@user.command("enable")
@click.argument("name", shell_complete=name_completion.users)
@output.with_target
def enable(target: Target, name: str) -> output.CommandResult:
    """Enable the user NAME again."""
    return _set_disabled(target, name, False)


@user.command("reset")
@click.argument("name", shell_complete=name_completion.users)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def reset(target: Target, name: str, yes: bool) -> output.CommandResult:
    """Print a link with which the user NAME sets a new password.

    Their password, their sessions and their API tokens end at once. A user who has lost their invitation gets a new one.
    """
    if not yes:
        output.ask(f"Reset {name}? Their password, sessions and API tokens end at once.", "Not reset.")
    made = target.api().post(f"/users/{segment(name)}/reset", None, CreatedUser)
    return output.message(made, made.link or "", before=f"reset {made.user.name}; this link works once, within a day:")


@user.command("delete")
@click.argument("name", shell_complete=name_completion.users)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def delete(target: Target, name: str, yes: bool) -> output.CommandResult:
    """Delete the user NAME with their sessions, tokens and roles. The audit log keeps what they did."""
    if not yes:
        output.ask(f"Delete {name} with their sessions, tokens and roles?", "Not deleted.")
    target.api().delete(f"/users/{segment(name)}")
    return output.message({"deleted": name}, f"deleted user {name}")


@user.command("sessions")
@click.argument("name", default="me", shell_complete=name_completion.users)
@output.with_target
def sessions(target: Target, name: str) -> output.CommandResult:
    """List the dashboard sessions of the user NAME, or your own without NAME."""
    items = list(target.api().list(f"/users/{segment(name)}/sessions", OpenSession))
    rows = [(i.id, i.address, output.age(i.created_at), output.age(i.seen_at)) for i in items]
    return output.listing(items, ("ID", "ADDRESS", "STARTED", "LAST USED"), rows, empty="no sessions")


@user.command("end-sessions")
@click.argument("name", shell_complete=name_completion.users)
@click.option("--session", metavar="ID", help="End only this session; `terracrew user sessions NAME` lists them.")
@output.with_target
def end_sessions(target: Target, name: str, session: str | None) -> output.CommandResult:
    """End all dashboard sessions of the user NAME. Their API tokens stay valid."""
    place = f"/users/{segment(name)}/sessions"
    if session:
        target.api().delete(f"{place}/{segment(session)}")
        ended = 1
    else:
        ended = target.api().delete(place, None, Ended).ended
    return output.message({"ended": ended}, f"ended {ended} session{'' if ended == 1 else 's'} of {name}")


@user.command("password")
@output.with_target
def password(target: Target) -> output.CommandResult:
    """Change your password. All your sessions and API tokens end, including the token of this command line.

    Without a terminal, the current and the new password are read from standard input, each on its own line.
    """
    if sys.stdin.isatty():
        question = "Current password (empty if you have none)"
        current: str = click.prompt(question, hide_input=True, default="", show_default=False, err=True)
        new: str = click.prompt("New password", hide_input=True, confirmation_prompt="Confirm password", err=True)
    else:
        current, new = (sys.stdin.readline().rstrip("\n") for _ in range(2))
    made = target.api().post("/me/password", NewPassword(new, current or None), PasswordChanged)
    ended = f"ended {made.sessions_ended} sessions and {made.tokens_revoked} API tokens"
    next_step = "log in with the new password, and create new tokens for scripts and `terracrew login`"
    return output.message(made, "changed your password", f"{ended}: {next_step}")


def _set_disabled(target: Target, name: str, is_disabled: bool) -> output.CommandResult:
    made = target.api().patch(f"/users/{segment(name)}", UserChange(is_disabled=is_disabled), User)
    return output.message(made, f"{made.name} is {_status(made)}")


def _status(found: User) -> str:
    if found.is_disabled:
        return "disabled"
    is_invited = isinstance(found, UserListed) and found.is_invited and not found.has_password
    return "invited" if is_invited else "enabled"
