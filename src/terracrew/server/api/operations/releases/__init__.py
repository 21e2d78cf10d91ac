"""Releases over HTTP: publishing, reading, withdrawing, and the tokens with which they are published."""
