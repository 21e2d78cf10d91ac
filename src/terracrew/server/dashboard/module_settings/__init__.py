"""The settings of a module, in sections."""
