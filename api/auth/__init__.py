"""Who calls: local accounts, signed sessions, roles."""
