"""Makes the git repository of the demo, with a few versions of one sample."""

import os
import shutil
import subprocess
from pathlib import Path

from terracrew.demo.samples import FOLDER
from terracrew.errors import EngineMissing, Unavailable

NAME = "infrastructure"
SAMPLE = "network"
VERSIONS = {
    "v1.0.0": ('["a", "b", "c"]', '["a", "b"]'),
    "v1.1.0": ("", ""),
    "v2.0.0": ("10.20.0.0/16", "10.40.0.0/16"),
}
"""The tags, and what is another text in the sample at each of them."""
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
"""With fixed names and times, every demo makes the same commits. Otherwise the tags would have moved in the second one."""


def make(parent: Path) -> Path:
    """Make the repository anew below a folder, and return its folder. Raises EngineMissing without the program `git`."""
    if shutil.which("git") is None:
        raise EngineMissing(
            "one of the samples comes from a git repository, and there is no program `git` on PATH",
            hint="install it (Debian: apt-get install git) and try again",
        )
    folder = parent / NAME
    shutil.rmtree(folder, ignore_errors=True)
    (folder / SAMPLE).mkdir(parents=True)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    text = (FOLDER / SAMPLE / "main.tf").read_text()
    for tag, (old, new) in VERSIONS.items():
        (folder / SAMPLE / "main.tf").write_text(text.replace(old, new) if old else text)
        _git(folder, "add", "--all")
        _git(folder, "commit", "--quiet", "--message", f"Release {tag}")
        _git(folder, "tag", "--annotate", "--message", f"Release {tag}", tag)
    return folder


def _git(folder: Path, *arguments: str) -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")} | _IDENTITY
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise Unavailable(f"the repository of the demo cannot be made: git {arguments[0]}: {said}")
