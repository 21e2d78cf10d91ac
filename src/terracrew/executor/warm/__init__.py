"""Keeps what `init` made for later jobs of the same module."""
