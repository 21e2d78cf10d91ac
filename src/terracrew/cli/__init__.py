"""The command line: one file for each noun, and modules for what several commands share. It speaks the public API."""
