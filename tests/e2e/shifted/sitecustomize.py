"""Loaded by every Python process whose PYTHONPATH names this folder: constants get the values that CONSTANTS names."""

import importlib
import json
import os
from datetime import timedelta

for place, value in json.loads(os.environ.get("CONSTANTS", "{}")).items():
    module, _, name = place.rpartition(".")
    found = importlib.import_module(module)
    is_duration = isinstance(getattr(found, name, None), timedelta)
    setattr(found, name, timedelta(seconds=value) if is_duration else value)
