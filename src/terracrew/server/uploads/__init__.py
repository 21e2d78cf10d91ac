"""Large bodies that arrive in parts."""
