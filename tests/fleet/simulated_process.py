"""`python -m tests.fleet.simulated_process --fd N`: the fleet process, with the simulated cloud in place of the real ones."""

import sys

from terracrew.fleet.main import main
from tests.fleet.simulated_cloud import SimulatedCloud

if __name__ == "__main__":
    main(sys.argv[1:], SimulatedCloud)
