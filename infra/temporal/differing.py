"""In what a server isn't what `temporal.yaml` says."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which the server isn't what the file says.

    Attributes:
        what: As `search attribute Card`.
        server: What the server has; `absent` when nothing.
        file: What the file says.
        applicable: False when only a person can change it, as an attribute's type.
    """

    what: str
    server: str
    file: str
    applicable: bool = True
