"""What a terminal acts on and a reader does not want to see: colours, cursor movements, titles."""

import re

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
ESCAPES_IN_BYTES = re.compile(ESCAPES.pattern.encode())
