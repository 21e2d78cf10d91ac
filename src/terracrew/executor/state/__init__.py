"""Receives the states and outputs that an engine writes and stores them until the server has them."""
