"""SQL texts and rows: statements that are derived from structs, parts that statements share, and rows that become structs."""
