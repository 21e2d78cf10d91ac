"""Loaded by every Python process whose PYTHONPATH names this folder: constants get the values that CONSTANTS names."""

import importlib
import json
import os

for place, value in json.loads(os.environ.get("CONSTANTS", "{}")).items():
    module, _, name = place.rpartition(".")
    setattr(importlib.import_module(module), name, value)
