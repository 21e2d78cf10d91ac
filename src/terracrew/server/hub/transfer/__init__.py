"""Transfers bodies that are too large for a WebSocket by HTTP. Only the executor of the attempt may send and get them."""
