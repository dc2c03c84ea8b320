"""Who stands at the command line."""

import getpass
import os


def actor() -> str:
    """Kept with every act: `operator:` and the name that the operating system knows."""
    try:
        return f"operator:{getpass.getuser()}"
    except (OSError, KeyError):  # a user id without a name, as in containers
        return f"operator:uid-{os.getuid()}"
