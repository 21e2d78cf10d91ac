"""What an engine changed in the real world before it was cut short, and no state may record."""
