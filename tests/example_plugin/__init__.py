"""A package of somebody else, as an installer leaves it in a directory: an engine, a source, and their entry points.

Put `DIRECTORY` into PYTHONPATH, and every process finds both by their names.
"""

from pathlib import Path

DIRECTORY = Path(__file__).parent
