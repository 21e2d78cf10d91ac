"""The module registry: groups publish versions of modules, which the engines of jobs and people fetch by name and version."""
