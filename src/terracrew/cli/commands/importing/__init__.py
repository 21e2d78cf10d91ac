"""`terracrew import`: makes modules of what other products and folders have. See docs/moving-in.md."""
