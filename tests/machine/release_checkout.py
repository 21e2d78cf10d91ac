"""A repository from which a test makes a release, with `scripts/release.py` of this tree."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from terracrew import __version__
from terracrew.releases.minisign import SecretKey

KEY = SecretKey.generate()
_ROOT = Path(__file__).parents[2]
_FOLDERS = ("src", "scripts")
_FILES = ("pyproject.toml", "uv.lock", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore", "Makefile")
_MAIN = 'def main():\n    import terracrew\n    print("terracrew", terracrew.__version__)\n'
"""The command line of a small checkout."""


@dataclass
class Checkout:
    """A repository of its own with files of this tree, and the key of its releases beside it."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *, is_whole: bool) -> "Checkout":
        it = cls(folder / "checkout")
        it.folder.mkdir(parents=True)
        for name in _FOLDERS if is_whole else ("scripts",):
            shutil.copytree(_ROOT / name, it.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        if not is_whole:
            (it.folder / "src" / "terracrew" / "cli").mkdir(parents=True)
            shutil.copy(_ROOT / "src" / "terracrew" / "__init__.py", it.folder / "src" / "terracrew")
            (it.folder / "src" / "terracrew" / "cli" / "main.py").write_text(_MAIN)
        for name in _FILES:
            shutil.copy(_ROOT / name, it.folder)
        it.git("init", "--quiet", "--initial-branch=main")
        it.commit("First")
        it.key.write_text(KEY.to_file())
        return it

    @property
    def key(self) -> Path:
        return self.folder.parent / "release.key"

    @property
    def made(self) -> Path:
        return self.folder / "build" / "release" / __version__

    def lend_environment(self) -> None:
        """Give it the Python environment of the tests, so that `make` need not install one."""
        environment = self.folder / ".venv"
        environment.mkdir()
        for name in ("bin", "lib"):
            (environment / name).symlink_to(Path(sys.prefix, name))
        shutil.copy(Path(sys.prefix, "pyvenv.cfg"), environment)
        (environment / ".dev").touch()

    def git(self, *arguments: str) -> None:
        who = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=self.folder, check=True, capture_output=True, timeout=60)

    def commit(self, title: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", title)

    def write(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new))

    def release(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"RELEASE_KEY_FILE": str(self.key), "WITHOUT_IMAGES": "1"} | variables
        command = [sys.executable, self.folder / "scripts" / "release.py", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
        )

    def refusal(self, *arguments: str, **variables: str) -> str:
        done = self.release(*arguments, **variables)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert not list((self.folder / "build" / "release").glob("[!.]*")), "something was left"
        return done.stderr
