"""The base of everything that crosses a process boundary."""

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """One frozen value that travels between rooms and stays readable in recorded histories.

    Fields are added with a default, never removed, renamed or reused: workflow histories are
    replayed for as long as they are kept. Unknown fields are ignored, so that a worker one
    release behind can still read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
