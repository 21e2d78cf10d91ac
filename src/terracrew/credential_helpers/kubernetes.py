"""`terracrew-helper-kubernetes`: prints the token that Kubernetes keeps in a file of this pod.

The kubelet replaces the file before its token expires. The helper runs for each renewal, so it always reads the current one.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

MAX_TOKEN_BYTES = 12_000
DEFAULT_PATH = "/var/run/secrets/terracrew/token"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="terracrew-helper-kubernetes", description="Prints a projected token of this pod, as JSON."
    )
    parser.add_argument("--file", default=DEFAULT_PATH, help=f"the file of the token [{DEFAULT_PATH}]")
    path = Path(parser.parse_args(arguments).file)
    try:
        with path.open("rb") as file:
            token = file.read(MAX_TOKEN_BYTES + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        print(f"{path} cannot be read: {error if isinstance(error, OSError) else 'it is not a token'}", file=sys.stderr)
        return 1
    if not token or len(token) > MAX_TOKEN_BYTES or token.count(".") != 2:
        print(f"{path} has no token: project a serviceAccountToken with an audience there", file=sys.stderr)
        return 1
    print(json.dumps({"token": token}))
    return 0
