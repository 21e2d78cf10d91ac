"""The pages of the module registry."""
