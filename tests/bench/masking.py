"""`masking_lines_per_s`: how many lines of output one executor cuts and masks in a second, with 200 secrets, some of which appear.

The secrets have characters that are escaped in URLs and JSON, so each of them has many forms. For comparison, the same output is
cut without any secret, and masked by one search and replacement for each secret, as it is and in no other form.
"""

import random
import time
from collections.abc import Callable

from terracrew.executor.output.lines import Cutter
from terracrew.masking.redactor import MASK, Redactor
from tests.bench.figures import median
from tests.bench.filled_server import Env

LINES, SECRETS, ROUNDS = 1_000_000, 200, 3
_READ_LINES = 4000
_LINE = b"\x1b[0m\x1b[1mterraform_data.a (local-exec):\x1b[0m \x1b[0m%07d\n"
_CHARACTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=-_ &"'


def run(env: Env) -> dict[str, float]:
    chosen = random.Random(12)
    secrets = ["".join(chosen.choices(_CHARACTERS, k=40)) for _ in range(SECRETS)]
    reads = [b"".join(_LINE % (at + each) for each in range(_READ_LINES)) for at in range(0, LINES, _READ_LINES)]
    reads = [read + f"password={chosen.choice(secrets)}\n".encode() for read in reads]
    redactor, nothing = Redactor(secrets), Redactor([])
    ways: dict[str, Callable[[], None]] = {
        "masking_lines_per_s": lambda: _cut(redactor, reads),
        "masking_lines_per_s.no_secrets": lambda: _cut(nothing, reads),
        "masking_lines_per_s.one_by_one": lambda: _replace(secrets, reads),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.process_time()
            way()
            rates[name].append(LINES / (time.process_time() - began))
    found = {name: median(each) for name, each in rates.items()}
    env.say(", ".join(f"{name}: {rate:,.0f}" for name, rate in found.items()))
    return found


def _cut(redactor: Redactor, reads: list[bytes]) -> None:
    cutter = Cutter(redactor)
    masks = sum(piece.text.count(MASK) for read in reads for piece in cutter.feed(read))
    if redactor and masks != len(reads):
        raise RuntimeError(f"{masks} secrets were masked, and {len(reads)} were printed")


def _replace(secrets: list[str], reads: list[bytes]) -> None:
    patterns = [secret.encode() for secret in secrets]
    for read in reads:
        for pattern in patterns:
            read = read.replace(pattern, MASK)
