"""The settings of a runner: their schema, and the layers they are read from. A server has `server/settings.py`."""
