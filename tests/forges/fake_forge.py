"""A forge for tests: a real HTTP server on loopback with repositories, pull requests, comments, hooks, limits and errors.

The three that inherit it speak the API of one forge each. What it delivers waits in `deliveries`, where a test drops, repeats and
reorders it.
"""

import asyncio
import contextlib
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeAlias, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

Fake = TypeVar("Fake", bound="FakeForge")
READ, STATUSES, COMMENTS, HOOKS, MERGE = "read", "statuses", "comments", "hooks", "merge"
EVERYTHING = frozenset({READ, STATUSES, COMMENTS, HOOKS, MERGE})
OWNER_TOKEN, OWN_USER = "t0ken-of-the-connection", "terracrew-bot"


@dataclass
class FakeUser:
    name: str
    id: int
    may: frozenset[str] = EVERYTHING


@dataclass
class FakePullRequest:
    number: int
    title: str
    author: FakeUser
    head_commit: str
    head_branch: str
    updated_at: datetime
    base_branch: str = "main"
    state: str = "open"
    is_fork: bool = False
    is_draft: bool = False
    merge_commit: str | None = None
    merged_by: FakeUser | None = None
    approvals: list[tuple[FakeUser, str]] = field(default_factory=list[tuple[FakeUser, str]])


@dataclass
class FakeComment:
    id: int
    number: int
    author: FakeUser
    body: str
    created_at: datetime
    updated_at: datetime
    is_on_issue: bool = False


@dataclass
class FakeHook:
    id: int
    url: str
    secret: str
    active: bool = True
    is_disabled_by_forge: bool = False


@dataclass
class FakeRepository:
    name: str
    branches: dict[str, str]
    pull_requests: dict[int, FakePullRequest] = field(default_factory=dict[int, FakePullRequest])
    comments: dict[int, FakeComment] = field(default_factory=dict[int, FakeComment])
    statuses: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict[tuple[str, str], dict[str, Any]])
    hooks: dict[int, FakeHook] = field(default_factory=dict[int, FakeHook])
    default_branch: str = "main"


@dataclass(frozen=True)
class FakeDelivery:
    """A delivery that waits: what the forge would post to the address of a hook."""

    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    user: FakeUser

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body) if self.body else {}

    @property
    def page(self) -> int:
        return int(self.query.get("page", "1"))

    @property
    def size(self) -> int:
        return int(self.query.get("per_page", self.query.get("limit", "30")))


@dataclass(frozen=True)
class Answer:
    status: int
    value: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    raw: bytes | None = None


class Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


Handler: TypeAlias = Callable[[Request, dict[str, str]], Answer]


class FakeForge:
    api: ClassVar[str]
    """The path below which the API is served."""
    has_tags: ClassVar[bool] = True

    def __init__(self) -> None:
        self.url = ""
        self.own = FakeUser(OWN_USER, 100)
        self.users: dict[str, FakeUser] = {
            each: FakeUser(each, number) for number, each in enumerate(("ada", "bob"), 7)
        }
        self.tokens: dict[str, FakeUser] = {OWNER_TOKEN: self.own}
        self.repositories: dict[str, FakeRepository] = {}
        self.deliveries: list[FakeDelivery] = []
        self.asked: Counter[str] = Counter()
        """How often each method and path was asked for."""
        self.instead: Callable[[Request], Answer | None] = lambda _: None
        """Answers in place of the forge where it returns something: errors, limits, nonsense."""
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = []
        self._numbers = itertools.count(1)
        self._now = datetime.now(UTC).replace(microsecond=0)

    # What people do on its pages.

    def repository(self, name: str = "acme/network") -> FakeRepository:
        made = FakeRepository(name, {"main": self.commit()})
        self.repositories[name.lower()] = made
        return made

    def open(
        self, repository: FakeRepository, branch: str, *, is_fork: bool = False, by: str = "ada"
    ) -> FakePullRequest:
        number = next(self._numbers)
        made = FakePullRequest(
            number, f"Change {branch}", self.users[by], self.commit(), branch, self.tick(), is_fork=is_fork
        )
        repository.pull_requests[number] = made
        self.tell_of_pull_request(repository, made, "opened")
        return made

    def push(self, repository: FakeRepository, branch: str) -> str:
        """Push a commit to a branch, and with it to the pull requests that it belongs to."""
        commit = self.commit()
        if branch in repository.branches or branch == repository.default_branch:
            repository.branches[branch] = commit
        for each in repository.pull_requests.values():
            if each.head_branch == branch and each.state == "open":
                each.head_commit, each.updated_at = commit, self.tick()
                self.tell_of_pull_request(repository, each, "synchronize")
        self.tell_of_push(repository, branch, commit)
        return commit

    def write(self, repository: FakeRepository, number: int, body: str, *, by: str = "bob") -> FakeComment:
        now = self.tick()
        made = FakeComment(next(self._numbers), number, self.users[by], body, now, now)
        repository.comments[made.id] = made
        if number in repository.pull_requests:
            repository.pull_requests[number].updated_at = now
        else:
            made.is_on_issue = True
        self.tell_of_comment(repository, made)
        return made

    def edit(self, comment: FakeComment, body: str) -> None:
        self._now += timedelta(seconds=60)
        comment.body, comment.updated_at = body, self.tick()

    def approve(self, repository: FakeRepository, number: int, *, by: str = "bob") -> None:
        found = repository.pull_requests[number]
        found.approvals.append((self.users[by], found.head_commit))
        found.updated_at = self.tick()
        self.tell_of_pull_request(repository, found, "submitted")

    def close(self, repository: FakeRepository, number: int) -> None:
        found = repository.pull_requests[number]
        found.state, found.updated_at = "closed", self.tick()
        self.tell_of_pull_request(repository, found, "closed")

    def merge(self, repository: FakeRepository, number: int, by: FakeUser | None = None) -> str:
        found = repository.pull_requests[number]
        found.state, found.updated_at = "merged", self.tick()
        found.merge_commit, found.merged_by = self.commit(), by or self.users["ada"]
        repository.branches[found.base_branch] = found.merge_commit
        self.tell_of_pull_request(repository, found, "closed")
        self.tell_of_push(repository, found.base_branch, found.merge_commit)
        return found.merge_commit

    def token_without(self, *missing: str) -> str:
        """Make a token that may do everything but this."""
        token = f"t0ken-{next(self._numbers)}"
        self.tokens[token] = FakeUser("limited", next(self._numbers) + 1000, EVERYTHING - set(missing))
        return token

    # What the forge itself does.

    def tell_of_pull_request(self, repository: FakeRepository, found: FakePullRequest, action: str) -> None:
        raise NotImplementedError

    def tell_of_comment(self, repository: FakeRepository, comment: FakeComment) -> None:
        raise NotImplementedError

    def tell_of_push(self, repository: FakeRepository, branch: str, commit: str) -> None:
        raise NotImplementedError

    def signed(self, event: str, secret: str, body: bytes) -> dict[str, str]:
        """Return the headers of a delivery."""
        raise NotImplementedError

    def user_of(self, headers: Mapping[str, str]) -> FakeUser | None:
        raise NotImplementedError

    def hooks_of(self, repository: FakeRepository) -> list[FakeHook]:
        return list(repository.hooks.values())

    def deliver(self, repository: FakeRepository, event: str, payload: Any) -> None:
        body = msgspec.json.encode(payload)
        for hook in self.hooks_of(repository):
            if hook.active and not hook.is_disabled_by_forge:
                self.deliveries.append(FakeDelivery(hook.url, self.signed(event, hook.secret, body), body))

    def route(self, method: str, pattern: str, handler: Handler) -> None:
        self._routes.append((method, re.compile(pattern), handler))

    def find(self, name: str) -> FakeRepository:
        found = self.repositories.get(unquote(name).lower())
        if found is None:
            raise Refusal(404, "Not Found")
        return found

    def need(self, request: Request, permission: str) -> None:
        if permission not in request.user.may:
            raise Refusal(403, f"Resource not accessible: {permission}")

    def commit(self) -> str:
        return hashlib.sha1(str(next(self._numbers)).encode(), usedforsecurity=False).hexdigest()

    def tick(self) -> datetime:
        """Let a second pass, and return the time."""
        self._now += timedelta(seconds=1)
        return self._now

    def behind(self, seconds: float) -> None:
        """Let the clock of the forge be behind."""
        self._now -= timedelta(seconds=seconds)

    def answer(self, request: Request) -> Answer:
        if (instead := self.instead(request)) is not None:
            return instead
        if not request.user.name and not request.path.endswith("/conversions"):
            return Answer(401, {"message": "Bad credentials"})
        try:
            for method, pattern, handler in self._routes:
                if method == request.method and (match := pattern.fullmatch(request.path)):
                    return self._tagged(request, handler(request, match.groupdict()))
        except Refusal as error:
            return Answer(error.status, {"message": error.message})
        return Answer(404, {"message": "404 Not Found"})

    def _tagged(self, request: Request, answer: Answer) -> Answer:
        """Add a tag to an answer, or say that nothing has changed since the answer with the tag of the request."""
        if not self.has_tags or request.method != "GET" or answer.status != 200:
            return answer
        content = answer.raw if answer.raw is not None else msgspec.json.encode(answer.value)
        tag = f'W/"{hashlib.sha256(content).hexdigest()}"'
        if request.headers.get("if-none-match") == tag:
            return Answer(304, headers={"ETag": tag})
        return Answer(answer.status, answer.value, {**answer.headers, "ETag": tag}, answer.raw)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            parts = urlsplit(target)
            path = parts.path.removeprefix(self.api)
            self.asked[f"{method} {path}"] += 1
            query = {name: found[0] for name, found in parse_qs(parts.query).items()}
            user = self.user_of(headers) or FakeUser("", 0, frozenset())
            answer = self.answer(Request(method, path, query, headers, body, user))
            writer.write(_encoded(answer))
            await writer.drain()
        writer.close()


def paged(request: Request, items: list[Any]) -> Answer:
    start = (request.page - 1) * request.size
    return Answer(200, items[start : start + request.size])


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@contextlib.asynccontextmanager
async def running(fake: Fake) -> AsyncGenerator[Fake]:
    async with await asyncio.start_server(fake.handle, "127.0.0.1", 0) as web:
        fake.url = f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}"
        yield fake
        web.close()


def _encoded(answer: Answer) -> bytes:
    content = answer.raw if answer.raw is not None else msgspec.json.encode(answer.value)
    if answer.status in (204, 304):
        content = b""
    headers = {"Content-Length": str(len(content)), "Connection": "close", **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} Answer", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + content
