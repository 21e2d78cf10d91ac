"""Starts the runner process."""

import sys

from terracrew.runner import process

if __name__ == "__main__":
    sys.exit(process.main())
