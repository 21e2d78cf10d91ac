"""A package of somebody else, as an installer leaves it in a directory: an engine, a source, a dispatcher, and their entry points.

Put `DIRECTORY` into PYTHONPATH, and every process finds them by their names.
"""

from pathlib import Path

DIRECTORY = Path(__file__).parent
