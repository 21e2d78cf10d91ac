"""Makes git repositories for tests, with the real git and without the configuration of the person who runs them."""

import os
import subprocess
from pathlib import Path

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
MODULE = 'output "x" { value = 1 }\n'


class Repository:
    """A repository with a working tree. A server serves its directory as it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    @property
    def name(self) -> str:
        return self.folder.name

    def git(self, *arguments: str, given: bytes = b"") -> str:
        env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")} | _IDENTITY
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *arguments],
            cwd=self.folder,
            env=env,
            input=given,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / f"{name}.tf").write_text(text)

    def commit(self, message: str = "a change", **files: str) -> str:
        """Commit everything that is in the working tree, with these files `<name>.tf`. Returns the id of the commit."""
        self.write(**files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def entries(self, *lines: str) -> str:
        """Commit a tree that no working tree could have: lines of `git mktree`, such as `120000 blob <id>\\tname`."""
        tree = self.git("mktree", "--missing", given="".join(f"{line}\n" for line in lines).encode())
        commit = self.git("commit-tree", "-m", "made by hand", tree)
        self.git("update-ref", "refs/heads/main", commit)
        return commit

    def blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", given=content)
