"""`python -m terracrew.fleet --fd N`: the server starts it."""

import sys

from terracrew.fleet.main import main

if __name__ == "__main__":
    main(sys.argv[1:])
