"""Who stands at the command line."""

import getpass
import os


def name() -> str:
    """The name that the operating system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in containers
        return f"uid-{os.getuid()}"


def actor() -> str:
    """Kept with every act."""
    return f"operator:{name()}"
