"""Prints a package of uv.lock as a line of a requirements file with its version and hashes: `locked.py NAME`.

It needs nothing but Python, because uv itself is installed by such a line. Packages that the named one needs are not printed.
"""

import sys
import tomllib
from pathlib import Path


def main(name: str, lock: Path) -> None:
    [package] = [each for each in tomllib.loads(lock.read_text())["package"] if each["name"] == name]
    files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
    print(f"{name}=={package['version']}", *(f"--hash={file['hash']}" for file in files))


if __name__ == "__main__":
    main(sys.argv[1], Path("uv.lock"))
