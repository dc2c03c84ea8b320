"""Pictures that an account sent before and that were whole: not decoded, nor stored, a second time.

Each account has its own memory. Another account's same picture takes the whole way, so nobody learns from the
time taken what others sent.
"""

from collections import OrderedDict

from workflows.domain.plan import ImageFacts

PICTURES_MAX = 10_000
"""About 300 bytes each; the oldest are forgotten, which costs one decoding."""


class KnownPictures:
    """Facts of pictures that were decoded to their end, in the memory of this process."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._facts: OrderedDict[tuple[str, str], ImageFacts] = OrderedDict()

    def facts(self, account_id: str, sha256: str) -> ImageFacts | None:
        """What is known of the account's picture with this digest."""
        found = self._facts.get((account_id, sha256))
        if found is not None:
            self._facts.move_to_end((account_id, sha256))
        return found

    def remember(self, account_id: str, sha256: str, facts: ImageFacts) -> None:
        """Keep what a full decoding found."""
        self._facts[account_id, sha256] = facts
        self._facts.move_to_end((account_id, sha256))
        if len(self._facts) > PICTURES_MAX:
            self._facts.popitem(last=False)
