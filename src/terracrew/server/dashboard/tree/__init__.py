"""What the pages of groups and modules share: inputs, hooks and flags, and the settings that groups hand down."""
