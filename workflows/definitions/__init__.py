"""The workflows themselves."""
