"""`make release`: what it makes verifies with the real minisign, and what is not ready to be released is refused."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from terracrew import __version__
from terracrew.releases.minisign import SecretKey
from tests.machine.needs import need
from tests.machine.release_checkout import KEY, Checkout
from tests.thoroughness import thorough

SMALL_MEMORY = {"operations": 2**15, "memory_bytes": 2**20}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    need(None if shutil.which("git") else "no git here")
    return Checkout.make(tmp_path_factory.mktemp("small"), is_whole=False)


@pytest.fixture
def checkout(small: Checkout, tmp_path: Path) -> Checkout:
    """A copy that a test may spoil."""
    shutil.copytree(small.folder.parent, tmp_path, dirs_exist_ok=True)
    return Checkout(tmp_path / "checkout")


@pytest.mark.feature("V1.build")
def test_a_release_is_built_twice_equal_and_everything_verifies(tmp_path: Path) -> None:
    program = shutil.which("minisign")
    need(None if program else "no minisign here: scripts/system-packages installs it")
    assert program is not None
    it = Checkout.make(tmp_path, is_whole=True)
    done = it.release()
    assert done.returncode == 0, done.stdout + done.stderr
    wheel, sources = f"terracrew-{python_form()}-py3-none-any.whl", f"terracrew-{python_form()}.tar.gz"
    names = [wheel, sources, "SHA256SUMS"]
    assert {each.name for each in it.made.iterdir()} == {*names, *(f"{name}.minisig" for name in names)}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=it.made, check=True, capture_output=True)
    for name in names:
        said = subprocess.run(
            [program, "-V", "-P", str(KEY.public_key), "-m", name],
            cwd=it.made,
            check=True,
            capture_output=True,
            text=True,
        )
        assert f"Trusted comment: terracrew {__version__} {name}" in said.stdout
    with zipfile.ZipFile(it.made / wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".pyc") or name.startswith("tests")]
    assert version_of_installed(it.made / wheel, tmp_path / "installed") == f"terracrew {__version__}\n"
    assert "this version was made before" in it.release().stderr


def python_form() -> str:
    return __version__.replace("-rc.", "rc")


def version_of_installed(wheel: Path, environment: Path) -> str:
    """Install a wheel into an environment of its own, which has the dependencies of this one, and ask it for its version."""
    uv = Path(sys.executable).with_name("uv")
    subprocess.run(
        [uv, "venv", "--quiet", "--offline", "--python", sys.executable, environment], check=True, timeout=60
    )
    python = environment / "bin" / "python"
    install = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, wheel]
    subprocess.run(install, check=True, timeout=60)
    (packages,) = environment.glob("lib/python3*/site-packages")
    here = next(each for each in sys.path if each.endswith("site-packages"))
    (packages / "dependencies.pth").write_text(here + "\n")
    where = "import terracrew; print(terracrew.__file__)"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run(
        [python, "-c", where], cwd=environment, env=env, check=True, capture_output=True, text=True
    ).stdout
    assert Path(said.strip()).is_relative_to(packages), "this tree was run instead of the wheel"
    program = environment / "bin" / "terracrew"
    return subprocess.run(
        [program, "--version"], env=env, check=True, capture_output=True, text=True, timeout=60
    ).stdout


@pytest.mark.feature("V1.build")
@thorough
def test_a_build_that_is_not_reproducible_is_no_release(checkout: Checkout) -> None:
    hook = "[tool.hatch.build.targets.wheel]\n"
    checkout.write("pyproject.toml", hook, f'{hook}hooks.custom.path = "scripts/hook.py"\n')
    (checkout.folder / "scripts" / "hook.py").write_text(
        "import pathlib, time\n"
        "from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n"
        "class Stamp(BuildHookInterface):\n"
        "    def initialize(self, version, build_data):\n"
        "        pathlib.Path(self.root, 'src/terracrew/stamp.py').write_text(f'MADE = {time.time()}')\n"
    )
    checkout.commit("Write the time into the package")
    assert f"not reproducible: terracrew-{python_form()}-py3-none-any.whl differ" in checkout.refusal()


@thorough
def test_what_is_not_ready_is_refused_before_it_is_built(checkout: Checkout) -> None:
    nowhere = {"WITHOUT_IMAGES": "", "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    assert "Docker does not answer. Start it, or make the packages alone with WITHOUT_IMAGES=1" in checkout.refusal(
        **nowhere
    )
    (checkout.folder / "left.txt").touch()
    assert "changes that are not committed:\n?? left.txt" in checkout.refusal()
    checkout.commit("Add a file")
    checkout.git("tag", f"v{__version__}", "HEAD~1")
    assert f"the tag v{__version__} is on commit" in checkout.refusal()
    checkout.git("tag", "--delete", f"v{__version__}")
    checkout.write("README.md", "# Terracrew", "# Terracrew\n\nterracrew-server:0.0.1")
    checkout.commit("Name an older image")
    assert "README.md: 0.0.1" in checkout.refusal()
    checkout.git("reset", "--quiet", "--hard", "HEAD~1")
    checkout.write("CHANGELOG.md", f"## {__version__}", "## 0.0.1")
    checkout.commit("Forget the notes")
    assert f"write a section with the heading `## {__version__}`" in checkout.refusal()


@thorough
def test_a_key_that_cannot_be_used_is_refused_before_it_is_built(checkout: Checkout) -> None:
    assert "cannot be read" in checkout.refusal("--key", "nowhere")
    checkout.key.write_text("nothing")
    assert "secret key is not Base64" in checkout.refusal()
    checkout.key.write_text(KEY.to_file("right", **SMALL_MEMORY))
    assert "name a file that has it" in checkout.refusal()
    password = checkout.key.with_name("password")
    password.write_text("wrong\n")
    assert "password of the secret key is wrong" in checkout.refusal("--password-file", str(password))
    password.write_text("right\n")
    (checkout.folder / "left.txt").touch()
    assert "not committed" in checkout.refusal("--password-file", str(password))


def test_a_new_key_is_private_and_replaces_none(checkout: Checkout) -> None:
    password, key = checkout.key.with_name("password"), checkout.key.with_name("new.key")
    password.write_text("\n")
    arguments = ("--new-key", str(key), "--password-file", str(password))
    done = checkout.release(*arguments)
    assert done.returncode == 0, done.stderr
    made = SecretKey.parse(key.read_text())
    assert f'release_key = "{made.public_key}"' in done.stdout
    assert key.with_name("new.key.pub").read_text() == made.public_key.to_file()
    assert key.stat().st_mode & 0o777 == 0o600
    key.with_name("new.key.pub").unlink()
    assert "No key is replaced" in checkout.refusal(*arguments)
    assert SecretKey.parse(key.read_text()) == made
