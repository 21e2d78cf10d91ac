"""The interface that the engines' own command lines speak: the `cloud` block and the backend `remote`."""
