"""`git_fetch_ms`: how long the second fetch of a repository with 10,000 files takes, against `git fetch` and `git checkout` alone.

Both get one new commit over https from the same server, into a repository that has the one before, and write all files into an
empty directory, as every attempt needs it. They take turns, so that a busy machine slows down both.
"""

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path

import msgspec

from terracrew.executor.isolation.source_rules import SourceConfinement
from terracrew.executor.sources.contract import FetchContext
from terracrew.executor.sources.git.fetcher import GitFetcher
from terracrew.protocol.spec import GitSource
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.source_contract import no_transfer
from tests.bench.figures import median
from tests.bench.filled_server import Env
from tests.machine import git_https
from tests.machine.git_https import GitHttps
from tests.machine.repositories import Repository

FILES, CHANGED_FILES, ROUNDS = 10_000, 20, 5


def run(env: Env) -> dict[str, float]:
    folder = env.directory / "git-fetch"
    with git_https.running(folder / "served") as server:
        repository = _repository(server)
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"} | server.environment
        bare, ours = _Bare(folder, server, environment), _Ours(folder, server, environment)
        seconds: dict[str, list[float]] = {"bare": [], "ours": []}
        for number in range(ROUNDS + 1):
            for file in range(CHANGED_FILES):
                _file(repository, file).write_text(f"# round {number} of file {file}\n")
            repository.commit(f"round {number}")
            turns = [("bare", bare.run), ("ours", ours.run)]
            for name, fetch in turns if number % 2 else reversed(turns):
                began = time.perf_counter()
                fetch(folder / f"{name}-{number}")
                if number:  # the first round fills both repositories
                    seconds[name].append(time.perf_counter() - began)
                shutil.rmtree(folder / f"{name}-{number}")
    found = {
        "git_fetch_ms": 1000 * median(seconds["ours"]),
        "git_fetch_ms.bare": 1000 * median(seconds["bare"]),
        "git_fetch_ms.share": median(
            [ours / bare for ours, bare in zip(seconds["ours"], seconds["bare"], strict=True)]
        ),
    }
    env.say(f"git_fetch_ms: {found['git_fetch_ms']:.0f}, bare {found['git_fetch_ms.bare']:.0f}, {FILES:,} files")
    return found


def _file(repository: Repository, number: int) -> Path:
    return repository.folder / f"part-{number % 100}" / f"file-{number}.tf"


def _repository(server: GitHttps) -> Repository:
    made = Repository(server.root / "large")
    for number in range(FILES):
        file = _file(made, number)
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"# {number}\n" + f'output "x{number}" {{ value = "{"x" * (number % 997)}" }}\n')
    made.commit("all files")
    return made


class _Bare:
    """Git alone, as a person would use it on the command line."""

    def __init__(self, folder: Path, server: GitHttps, environment: dict[str, str]) -> None:
        self._mirror, self._environment = folder / "bare.git", environment
        self._git(folder, "clone", "--quiet", "--bare", server.of("large"), str(self._mirror))

    def run(self, to: Path) -> None:
        to.mkdir()
        self._git(to, f"--git-dir={self._mirror}", "fetch", "--quiet", "origin", "+main:main")
        place = (f"--git-dir={self._mirror}", f"--work-tree={to}")
        (self._mirror / "index").unlink(missing_ok=True)
        self._git(to, *place, "checkout", "--quiet", "--force", "main")

    def _git(self, folder: Path, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=folder, env=self._environment, check=True)


class _Ours:
    """What an executor does: resolve the branch, fetch, check the tree, and write it, with git isolated."""

    def __init__(self, folder: Path, server: GitHttps, environment: dict[str, str]) -> None:
        self._source = GitSource(server.of("large"), branch="main")
        self._context = FetchContext(folder / "cache", [], no_transfer(), environment=environment, owner="org_1")
        self._environment = environment

    def run(self, to: Path) -> None:
        to.mkdir()
        confinement = SourceConfinement(IsolationSettings(), self._environment)
        context = msgspec.structs.replace(self._context, confinement=confinement)
        asyncio.run(GitFetcher().fetch(self._source, to, context))
        confinement.close()
