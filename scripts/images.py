"""Builds the images of server, runner and executor, and writes the bill of materials of each to build/images.

The base is pinned by the digest that the registry gives for it, so that the three images have the same one and a label says
which. The engines, and the program that checks policies on the server, are those of `terracrew engine install`, which verifies them.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import image_archive
from steps import step

from terracrew import __version__
from terracrew.cli.commands.engine import showing_progress
from terracrew.toolchains import install, specs

ROOT = Path(__file__).parents[1]
TARGETS = ("server", "executor", "runner")
_BASE = "debian:bookworm-slim"
_SBOM = "/usr/share/sbom/terracrew.cdx.json"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default=_BASE, help=f"a root file system of Debian 12 [{_BASE}]")
    parser.add_argument("--name", default="terracrew", help="images are called NAME-server and so on [terracrew]")
    parser.add_argument("--tag", default=__version__, help=f"the tag of the images [{__version__}]")
    parser.add_argument("--network", help="the network of the build, as for `docker build --network`")
    parser.add_argument("--engine", action="append", choices=list(specs.ENGINES), help="an engine to include [tofu]")
    parser.add_argument("--target", action="append", choices=TARGETS, help="build only this image; can be repeated")
    parser.add_argument("--epoch", type=int, help="build reproducibly: no file is later than this time, in seconds")
    parser.add_argument("--no-cache", action="store_true", help="build each layer anew")
    options = parser.parse_args(arguments)
    made = ROOT / "build" / "images"
    _copy_engines(options.engine or ["tofu"], made / "engines", options.epoch)
    _copy_engines([specs.OPA.name], made / "policies", options.epoch)
    base = _pinned(options.base)
    print(f"base {base}", flush=True)
    for target in options.target or TARGETS:
        image = f"{options.name}-{target}:{options.tag}"
        with step(f"building {image}"):
            _build(target, image, base, options)
        if options.epoch is not None:
            with step(f"removing the time of the build from {image}"):
                _remove_times(image, options.epoch)
        (made / f"{target}.cdx.json").write_text(_output("run", "--rm", "--entrypoint", "cat", image, _SBOM))
        size = int(_output("image", "inspect", "--format", "{{.Size}}", image))
        print(f"{image}: {size / 1e6:.0f} MB", flush=True)


def push(image: str) -> str:
    """Push an image to its registry, and return the reference with the digest that the registry gave it."""
    with step(f"pushing {image}"):
        done = subprocess.run(["docker", "push", "--quiet", image], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{image} was not pushed:\n{done.stderr[-2000:]}")
    digests: list[str] = json.loads(_output("image", "inspect", "--format", "{{json .RepoDigests}}", image))
    name = image.rpartition(":")[0]
    digest = next((each.rpartition("@")[2] for each in digests if each.rpartition("@")[0] == name), None)
    if digest is None:
        sys.exit(f"{image} was pushed, but the registry gave no digest for it")
    return f"{image}@{digest}"


def image_id(image: str) -> str:
    """Return the hash of the configuration of an image, which has the hash of the content of each layer."""
    return _output("image", "inspect", "--format", "{{.Id}}", image).strip()


def remove(image: str) -> None:
    _output("image", "rm", image)


def is_docker_there() -> bool:
    try:
        return not subprocess.run(["docker", "version"], check=False, capture_output=True, timeout=30).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def _copy_engines(names: Sequence[str], folder: Path, epoch: int | None) -> None:
    """Put these programs into the folder, with a list of them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    listed: list[dict[str, str]] = []
    for name in names:
        with showing_progress() as show:
            found = install.install(name, specs.get(name).version, report=show)
        for program in specs.get(name).programs:
            shutil.copy2(Path(found.path).parent / program.binary, folder)
        listed.append({"name": found.name, "version": found.version})
    (folder / "engines.json").write_text(json.dumps(listed))
    for file in folder.iterdir():
        if epoch is not None:
            os.utime(file, (epoch, epoch))  # the image recognizes an engine by its time, too


def _pinned(base: str) -> str:
    """Return the base with its digest, or as it is if no registry has it."""
    if "@" in base:
        return base
    subprocess.run(["docker", "pull", "--quiet", base], check=False, capture_output=True)
    digests: list[str] = json.loads(_output("image", "inspect", "--format", "{{json .RepoDigests}}", base))
    return digests[0] if digests else base


def _build(target: str, image: str, base: str, options: argparse.Namespace) -> None:
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=False, capture_output=True, text=True
    ).stdout
    values = {"BASE": base, "VERSION": __version__, "REVISION": revision.strip() or "unknown"}
    if options.epoch is not None:
        values["SOURCE_DATE_EPOCH"] = str(options.epoch)
    if index := os.environ.get("PIP_INDEX_URL"):
        values["PIP_INDEX_URL"] = index
    command = ["docker", "build", "--quiet", "--target", target, "--tag", image, "--file", "deploy/docker/Dockerfile"]
    command += [argument for name, value in values.items() for argument in ("--build-arg", f"{name}={value}")]
    command += ["--network", options.network] if options.network else []
    command += ["--no-cache"] if options.no_cache else []
    done = subprocess.run([*command, "."], cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{image} was not built:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")


def _remove_times(image: str, epoch: int) -> None:
    with tempfile.TemporaryDirectory(prefix="terracrew-image-", dir=ROOT / "build") as folder:
        saved, fixed = Path(folder, "saved.tar"), Path(folder, "fixed.tar")
        _output("save", "--output", str(saved), image)
        image_archive.rewrite(saved, fixed, epoch)
        _output("load", "--quiet", "--input", str(fixed))


def _output(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main(sys.argv[1:])
