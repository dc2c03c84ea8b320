"""`holdfast`: the command line."""
