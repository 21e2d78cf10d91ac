"""The places that external settings are read from. Each module has one kind of store, and `contract` says what they share."""
