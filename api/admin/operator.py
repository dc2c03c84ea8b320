"""Who may come here: a member who operates, by his session. It is looked up each time, so it ends at once."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from api.auth.caller import Authenticated
from api.deadlines import READ, answer_within
from api.errors import refuse
from api.parts import parts_of
from infra import accounts, operators
from workflows.contracts.failures import Code


@dataclass(frozen=True, slots=True)
class Operator:
    """A member who operates.

    Attributes:
        name: His email address: what acts are signed with.
    """

    name: str

    @property
    def actor(self) -> str:
        """As the books call him."""
        return f"operator:{self.name}"


async def operator(request: Request, caller: Authenticated) -> Operator:
    """The operator; before anything of the request is read.

    Raises:
        ApiError: 401 without a session, 403 for everybody who doesn't operate, whatever was asked for.
    """
    async with answer_within(READ), parts_of(request).database.read() as reader:
        member = await accounts.member(reader, caller.member_id)
        operates = await operators.is_operator(reader, caller.member_id)
    if member is None or not operates:
        raise refuse(Code.FORBIDDEN, "This is for operators.")
    return Operator(name=member.email)


Operating = Annotated[Operator, Depends(operator)]
