"""The pages of modules: the list, one module, its creation, source, settings and states."""
