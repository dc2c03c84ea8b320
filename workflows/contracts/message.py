"""The base of everything that crosses a process boundary."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

_UNRECORDABLE = re.compile("[\0\ud800-\udfff]")


def recordable(text: str) -> str:
    """The text with a mark in place of each character that no database or JSON carries: NUL, half surrogates."""
    return _UNRECORDABLE.sub("\N{REPLACEMENT CHARACTER}", text)


Words = Annotated[str, AfterValidator(recordable)]
"""What somebody outside wrote. A step that can't record it would be tried again for ever."""


class Message(BaseModel):
    """One frozen value that travels between rooms and stays readable in recorded histories.

    Fields are added with a default, never removed, renamed or reused: workflow histories are
    replayed for as long as they are kept. Unknown fields are ignored, so that a worker one
    release behind can still read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
