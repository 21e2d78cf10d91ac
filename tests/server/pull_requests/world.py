"""A repository on a forge, the modules that have it as their source, and the servers that plan its pull requests.

The forge is a real HTTP server that behaves like Gitea, the repository is served by git, and the test itself is the runner.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from terracrew.api.jobs import Job
from terracrew.forges.model import Comment
from terracrew.protocol.events import KeptPlan, PlanSummary, ResourceChange, Result
from terracrew.protocol.messages import Begun
from terracrew.server.db.seam import Tx
from terracrew.server.forges import answers, fact_store, repository_store
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.model import ForgeConnection, ForgePullRequest, ForgeRepository
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.git.program import GitProgram
from terracrew.server.jobs import store as jobs
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.server.outgoing.destinations import Destinations
from terracrew.server.pull_requests import store
from terracrew.server.pull_requests.loop import PullRequests
from terracrew.server.pull_requests.model import ForgeUser, TouchedModule, TrackedPullRequest
from terracrew.server.pull_requests.showing import Showing
from terracrew.server.pull_requests.tools import PullRequestTools
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, fact
from tests.builders.job_rows import begin
from tests.forges import fake_forge
from tests.forges.fake_forge import OWNER_TOKEN, FakePullRequest, FakeRepository
from tests.forges.fake_gitea import FakeGitea
from tests.machine import git_https
from tests.machine.git_https import GitHttps
from tests.machine.repositories import Repository
from tests.server.application import Person
from tests.server.forges import forge_rows
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner

ADDS_ONE = PlanSummary(add=1, existing=1, resources=[ResourceChange("terraform_data.a", "create")])
NOTHING = PlanSummary(existing=1, unchanged=1)
HASH = "ab" * 32
NAME = "acme/network"


class World:
    """Pull requests of one repository."""

    def __init__(
        self, runner: SimulatedRunner, clock: ShiftedClock, forge: FakeGitea, git: GitHttps, folder: Path
    ) -> None:
        self.runner, self.forge, self.git = runner, forge, git
        self.app, self.server, self.db = runner.app, runner.server, runner.server.db
        self.on_forge: FakeRepository = forge.repository(NAME)
        self.repository = Repository(git.root / "network")
        self.folder, self.clock = folder, clock
        self.outgoing = OutgoingClient(Destinations.parse(["localhost", "127.0.0.1"]))
        self.forges = Forges(self.outgoing, self.server.keys)
        self.loops = [self.loop(f"srv_{number}") for number in range(2)]
        self.connection: ForgeConnection
        self.watched: ForgeRepository

    @classmethod
    @asynccontextmanager
    async def open(cls, runner: SimulatedRunner, clock: ShiftedClock, folder: Path) -> AsyncGenerator["World"]:
        async with fake_forge.running(FakeGitea()) as forge:
            with git_https.running(folder / "served") as git:
                made = cls(runner, clock, forge, git, folder)
                await made.prepare()
                yield made

    def loop(self, server_id: str) -> PullRequests:
        program = GitProgram(self.folder / server_id / "home", dict(os.environ) | self.git.environment)
        server = self.server
        tools = PullRequestTools(
            db=self.db,
            keys=server.keys,
            registry=server.registry,
            forges=self.forges,
            mirrors=RepositoryMirrors(self.folder / server_id / "repositories", self.outgoing, program),
            staging=server.staging,
            quotas=server.quotas,
            roots=(),
            url="https://terracrew.example.com",
            server_id=server_id,
        )
        return PullRequests(tools, Showing(self.clock))

    async def prepare(self) -> None:
        self.write("vpc", 'module "net" { source = "../modules/net" }\n')
        self.write("app", 'output "app" { value = 1 }\n')
        self.write("modules/net", 'output "net" { value = 1 }\n')
        self.on_forge.branches["main"] = self.repository.commit("first")
        self.connection = await forge_rows.connection(
            self.db, self.server.keys, token=OWNER_TOKEN, base_url=self.forge.url
        )
        await forge_rows.repository(self.db, self.connection, NAME)
        await self.poll()
        await self.app.admin.made("/api/v1/groups", {"path": "team"})
        for each in ("vpc", "app"):
            await self.module(each)

    async def module(self, folder: str, *, branch: str = "", **settings: Any) -> str:
        """A module of the group `team` with this folder of the repository as its source."""
        source = {"kind": "git", "url": f"ssh://git@127.0.0.1/{NAME}", "subdirectory": folder, "branch": branch}
        path = f"team/{folder.replace('/', '-')}{branch and f'-{branch}'}"
        return (await self.app.admin.made("/api/v1/modules", {"path": path, "source": source, **settings}))["id"]

    def write(self, folder: str, content: str, name: str = "main.tf") -> None:
        at = self.repository.folder / folder
        at.mkdir(parents=True, exist_ok=True)
        (at / name).write_text(content)

    def branch(self, name: str, folder: str, content: str = 'output "app" { value = 2 }\n', **more: str) -> str:
        """Commit a change of a folder to a branch, which begins at `main` if it is new; the commit."""
        exists = bool(self.repository.git("branch", "--list", name))
        self.repository.git("checkout", "-q", *([name] if exists else ["-b", name, "main"]))
        self.write(folder, content)
        for other, text in more.items():
            self.write(other, text)
        commit = self.repository.commit(f"change {folder}")
        self.repository.git("checkout", "-q", "main")
        return commit

    def open_on_forge(self, branch: str, folder: str, **facts: Any) -> FakePullRequest:
        found = self.forge.open(self.on_forge, branch, **facts)
        self.push(found, self.branch(branch, folder))
        return found

    def push(self, found: FakePullRequest, commit: str) -> None:
        """Let the forge have this as the newest commit of a pull request."""
        found.head_commit = commit
        self.repository.git("update-ref", f"refs/pull/{found.number}/head", commit)

    def merge_on_forge(self, found: FakePullRequest) -> str:
        """Merge a pull request by a person on the forge; the commit."""
        self.repository.git("merge", "-q", "--no-ff", "-m", "merged", found.head_commit)
        commit = self.repository.git("rev-parse", "HEAD")
        self.forge.merge(self.on_forge, found.number)
        found.merge_commit, self.on_forge.branches["main"] = commit, commit
        return commit

    async def poll(self) -> None:
        """Let the server ask the forge about everything, as its loops do."""
        forge = self.forges.of(self.connection)
        known = await self.db.read(lambda tx: repository_store.named(tx, self.connection.id, NAME))
        assert known is not None
        question = await self.db.write(lambda tx: repository_store.ask(tx, known.id))
        head = await forge.branch(NAME, "main", "")
        found = [await forge.pull_request(NAME, number) for number in self.on_forge.pull_requests]

        async def work(tx: Tx) -> ForgeRepository:
            before = await repository_store.hold(tx, known.id)
            assert before is not None
            named = replace(before, clone_url=self.git.of("network"), default_branch="main")
            after = answers.with_head(named, head, question, tx.moment)
            await repository_store.save(tx, before, after)
            await fact_store.save_answers(tx, known.id, found, question)
            return after

        self.watched = await self.db.write(work)

    async def step(self, *, polls: bool = True) -> None:
        """Let both servers do what there is to do, until there is nothing left."""
        if polls:
            await self.poll()
        for _ in range(10):
            if not sum(await asyncio.gather(*(each.step() for each in self.loops))):
                return
        raise AssertionError("the loops find something to do again and again")

    async def show(self, found: FakePullRequest) -> tuple[TrackedPullRequest, dict[str, TouchedModule]]:
        facts = await self.facts(found)

        async def work(tx: Tx) -> tuple[TrackedPullRequest, dict[str, TouchedModule]]:
            row = await store.get(tx, facts.id)
            assert row is not None
            rows = await tx.all("SELECT id, path FROM modules")
            names = {each["id"]: each["path"] for each in rows}
            return row, {names[each.module_id]: each for each in await store.modules_of(tx, facts.id)}

        return await self.db.read(work)

    async def facts(self, found: FakePullRequest) -> ForgePullRequest:
        facts = await self.db.read(lambda tx: fact_store.numbered(tx, self.watched.id, found.number))
        assert facts is not None
        return facts

    async def states(self, found: FakePullRequest) -> dict[str, str]:
        return {path: each.state for path, each in (await self.show(found))[1].items()}

    async def job(self, job_id: str | None) -> Job:
        assert job_id is not None
        return await self.db.read(lambda tx: jobs.get(tx, job_id))

    async def plan(self, found: FakePullRequest, path: str, summary: PlanSummary = ADDS_ONE) -> Job:
        """The runner makes the plan of a module, and the servers notice."""
        job_id = await self.end_plan((await self.show(found))[1][path], summary)
        await self.step()
        return await self.job(job_id)

    async def end_plan(self, module: TouchedModule, summary: PlanSummary = ADDS_ONE) -> str:
        """The runner makes the plan of a module; returns its job."""
        job = await self.job(module.plan_job_id)
        attempt = await self.runner.again(job.id)
        version = await self.version(job.module_id)
        kept = KeptPlan(version, "cd" * 32, 2, f"/workspaces/{job.id}.1", HASH) if summary.resources else None
        await attempt.deliver(RUNNING, fact(summary), fact(Result("SUCCEEDED", kept=kept)))
        return job.id

    async def version(self, module_id: str) -> int:
        return await self.app.scalar("SELECT state_version FROM modules WHERE id = :id", id=module_id)

    async def planned(self, branch: str = "change", folder: str = "app", **facts: Any) -> FakePullRequest:
        """A pull request that changes one module, with its plan."""
        found = self.open_on_forge(branch, folder, **facts)
        await self.step()
        await self.plan(found, f"team/{folder}")
        return found

    async def apply(self, job_id: str | None) -> None:
        """The runner applies what it is asked to, and delivers a state."""
        job = await self.job(job_id)
        attempt: SimulatedAttempt = await self.runner.again(job.id, job.attempt)
        version = await self.version(job.module_id)
        await attempt.deliver(RUNNING)
        plan_attempt, sha256 = (0, HASH) if job.plan_attempt == 0 else (None, "")
        begun = await begin(self.db, attempt.ref, version, plan_attempt, plan_sha256=sha256)
        assert isinstance(begun, Begun), begun
        await attempt.write(b'{"version": 4, "resources": []}', serial=version + 1)
        await attempt.deliver(DONE)
        await self.step()

    async def link(self, name: str, person: Person) -> None:
        """Let this user of the forge be this person."""

        async def work(tx: Tx) -> None:
            user = ForgeUser(
                connection_id=self.connection.id,
                forge_user_id=str(self.forge.users[name].id),
                forge_user=name,
                user_id=person.principal.id,
                linked_by="test",
                linked_at=tx.moment,
            )
            await store.link(tx, user)

        await self.db.write(work)

    async def comment(self, found: FakePullRequest, body: str, by: str = "bob") -> None:
        written = self.forge.write(self.on_forge, found.number, body, by=by)
        told = Comment(
            id=str(written.id),
            number=found.number,
            author=by,
            author_id=str(written.author.id),
            body=body,
            url="https://forge.example.com/1",
            created_at=written.created_at,
        )
        await self.db.write(lambda tx: answers.save_comments(tx, self.watched.id, [told]))
        self.clock.advance(61)
        await self.step()

    @property
    def status(self) -> dict[str, tuple[str, str]]:
        """The statuses beside the newest commit of the last pull request: their states and descriptions, by their names."""
        head = list(self.on_forge.pull_requests.values())[-1].head_commit
        return {
            name: (each["state"], each["description"])
            for (commit, name), each in self.on_forge.statuses.items()
            if commit == head
        }

    @property
    def own_comments(self) -> list[str]:
        """The texts of the comments that the servers have written."""
        return [each.body for each in self.on_forge.comments.values() if each.author.name == self.forge.own.name]
