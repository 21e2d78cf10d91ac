"""Users, and the sessions in which they are logged in."""

from litestar import delete, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody

from terracrew import ids
from terracrew.api.access import CreatedUser, Ended, NewUser, OpenSession, User, UserChange, UserDetails, UserListed
from terracrew.api.pages import Page
from terracrew.server.api.context import AccessCall
from terracrew.server.identity.access import users
from terracrew.server.identity.people import oversight, service
from terracrew.server.paging import After, Limit


@get("/users", summary="List users")
async def list_users(
    request: AccessCall, search: FromQuery[str | None] = None, after: After = None, limit: Limit = 50
) -> Page[UserListed]:
    """List the users of your organization, or those whose names contain `search`."""
    return await request.read_in_background(users.listing, after, limit, search)


@post("/users", summary="Create a user")
async def create_user(request: AccessCall, data: JSONBody[NewUser]) -> CreatedUser:
    """Create a user without a role. The response has a link with which they log in once and set a password, if you are logged in or use
    the command line on the server's machine."""
    user, link = await service.create_user(request.context.db, request.user, data.name, data.is_system_admin)
    return CreatedUser(user, None if link is None else service.link_url(request.context.identity.url, link))


@get("/users/{user:str}", summary="Show a user")
async def show_user(request: AccessCall, user: FromPath[str]) -> UserDetails:
    """Show a user with their roles in your organization. `user` is a name, an id or `me`."""
    return await request.read(users.show, user)


@patch("/users/{user:str}", summary="Change a user")
async def change_user(request: AccessCall, user: FromPath[str], data: JSONBody[UserChange]) -> User:
    """Rename a user; disable a user, which ends their sessions and tokens, or enable them again; and, as an administrator,
    decide who is an administrator."""
    return await users.change(request.context.db, request.user, user, data)


@delete("/users/{user:str}", summary="Delete a user")
async def delete_user(request: AccessCall, user: FromPath[str]) -> None:
    """Delete a user with their sessions, tokens and roles. The audit log keeps what they did."""
    await request.write(users.delete, user)


@post("/users/{user:str}/reset", summary="Reset a user", status_code=200)
async def reset_user(request: AccessCall, user: FromPath[str]) -> CreatedUser:
    """End the password, the sessions and the tokens of a user. The response has a link with which they log in once and set a
    new password. An API token cannot do this."""
    found, link = await users.reset(request.context.db, request.user, user)
    return CreatedUser(found, service.link_url(request.context.identity.url, link))


@get("/users/{user:str}/sessions", summary="List the sessions of a user")
async def list_sessions(
    request: AccessCall, user: FromPath[str], after: After = None, limit: Limit = 50
) -> Page[OpenSession]:
    """List where a user is logged in. `user` is a name, an id or `me`; for others it takes the right to manage access."""
    return await request.read_in_background(oversight.list_sessions, user, after, limit)


@delete("/users/{user:str}/sessions", summary="End all sessions of a user", status_code=200)
async def end_sessions(request: AccessCall, user: FromPath[str]) -> Ended:
    """Log a user out everywhere, except that your own current session stays."""
    return Ended(await request.write(oversight.end_sessions, user))


@delete("/users/{user:str}/sessions/{session_id:str}", summary="End a session of a user")
async def end_session(request: AccessCall, user: FromPath[str], session_id: FromPath[str]) -> None:
    """End one session. The browser that has it must log in again."""
    await request.write(oversight.end_session, user, ids.parse("ses", session_id))
