"""Runners: their registration, which jobs they may take, and what people see of them."""
