"""The image that tests build on: what `debian:bookworm-slim` holds, made from Debian's packages, because none can be pulled.

It differs from the published image in one thing: it trusts the certificate authorities that this machine trusts beside
Debian's own. `python -m tests.machine.platforms.debian_image` makes it, in about a minute and a half.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from terracrew.toolchains import cache
from tests.machine import platforms
from tests.machine.sqlite_template import memory

SUITE = "bookworm"
NAME = f"terracrew-test/debian:{SUITE}-slim"
_EXCLUDED = ("doc", "man", "info", "locale", "groff", "lintian")
_OWN_AUTHORITIES = Path("/usr/local/share/ca-certificates")
_MERGED_USR = "/usr/share/mmdebstrap/hooks/merged-usr"
_MAKE_SECONDS = 540


def image(address: str) -> str:
    """Return the name of the image in the daemon at this address. Makes what is missing."""
    docker = ["docker", "--host", address]
    options = _options()
    digest = hashlib.sha256("\n".join(options).encode()).hexdigest()[:16]
    tagged = f"{NAME}-{digest}"
    with cache.locked("platforms-debian", lambda: None) as workplace:
        if subprocess.run([*docker, "image", "inspect", tagged], capture_output=True, check=False).returncode:
            file = made(options, digest, workplace)
            subprocess.run([*docker, "import", str(file), tagged], check=True, capture_output=True)
    return tagged


def _options() -> list[str]:
    """Return how the root file system is made; another text gives another image."""
    # The hook replaces the package that merges /usr later, which brings all of Perl with it.
    options = ["--variant=minbase", "--include=usr-is-merged", f"--hook-dir={_MERGED_USR}", "--dpkgopt=force-unsafe-io"]
    options += [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in _EXCLUDED]
    options += ["--dpkgopt=path-include=/usr/share/doc/*/copyright"]
    authorities = sorted(_OWN_AUTHORITIES.glob("*.crt"))
    if authorities:
        options.append(f'--customize-hook=mkdir -p "$1{_OWN_AUTHORITIES}"')
        options += [f'--customize-hook=cp "{file}" "$1{_OWN_AUTHORITIES}/"' for file in authorities]
    return options


def made(options: list[str], digest: str, workplace: Path) -> Path:
    """Return an archive of the root file system that these options make. Makes it if it is missing."""
    file = cache.root() / "platforms" / f"debian-{SUITE}-{digest}.tar"
    if file.exists():
        return file
    new = workplace / "root.tar"
    # Unpacking syncs every file, which takes minutes on a disk.
    env = {**os.environ, "TMPDIR": memory() or str(workplace)}
    # One that is killed leaves its mounts behind. In a mount namespace of its own, they end with it.
    command = ["unshare", "--mount", "--propagation", "private", "mmdebstrap", *options, SUITE, str(new)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_MAKE_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"mmdebstrap failed: {done.stderr[-2000:]}")
    file.parent.mkdir(parents=True, exist_ok=True)
    return new.replace(file)


if __name__ == "__main__":
    os.environ.setdefault(platforms.CHOICE, "docker")
    try:
        print(image(platforms.need("docker")))
    finally:
        platforms.leave_all()
    sys.exit(0)
