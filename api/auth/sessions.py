"""Signed session tokens. They name a member and say nothing else; role and account are read each time."""

from itsdangerous import BadSignature, URLSafeTimedSerializer

from infra.settings import Settings

COOKIE = "holdfast_session"
_SALT = "holdfast.session.1"  # a signature made for another purpose never passes for a session


class Sessions:
    """Makes and reads tokens."""

    def __init__(self, settings: Settings) -> None:
        """Without a session secret no session exists, see `configured`."""
        secret = settings.session_secret.get_secret_value()
        self.configured = bool(secret)
        self.seconds = settings.session_hours * 3600
        self._serializer = URLSafeTimedSerializer(secret or "-", salt=_SALT)

    def issue(self, member_id: str) -> str:
        """A token for a member who just proved to be one."""
        return str(self._serializer.dumps(member_id))

    def member_id(self, token: str) -> str | None:
        """The member of a token that is ours and not too old."""
        if not self.configured:
            return None
        try:
            found = self._serializer.loads(token, max_age=self.seconds)
        except BadSignature:
            return None
        return found if isinstance(found, str) else None
