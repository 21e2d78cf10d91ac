"""How many examples a longer run makes."""

import os

EXAMPLES = int(os.environ.get("TERRACREW_STATEFUL_EXAMPLES", "0"))
