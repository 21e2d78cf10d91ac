"""The rules for sources that come from other machines. The server checks them when a module is set, and the runner again."""
