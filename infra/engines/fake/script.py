"""What the fake engine can do wrong."""

from enum import StrEnum


class Script(StrEnum):
    """One run's behaviour."""

    GOOD = "good"
    """Runs its steps and delivers."""
    SLOW = "slow"
    """As good, with steps twenty times as long."""
    CRASH_ON_SUBMIT = "crash_on_submit"
    """Its process dies before the run is accepted; the call goes unanswered."""
    CRASH_MID_RUN = "crash_mid_run"
    """Its process dies in the middle of the run."""
    HANG = "hang"
    """Accepts, answers, and never gets further."""
    LOSE_ACK = "lose_ack"
    """Accepts and finishes; the answer to the submission is lost."""
    LOSE_HISTORY = "lose_history"
    """Finishes, restarts unseen, and knows nothing of the run any more."""
    OUT_OF_MEMORY = "out_of_memory"
    """Fails with that verdict half way."""
    POISONED = "poisoned"
    """As above, and so does each run after it; freeing memory doesn't help, a restart does."""
    WRONG_SIZE = "wrong_size"
    """Delivers a picture of another size."""
    BLACK = "black"
    """Delivers a picture that is black all over."""
    TRUNCATED = "truncated"
    """Delivers a file that ends too early."""
    LACK_FIRST = "lack_first"
    """Delivers all results but the first; of one result, none."""
    BLACK_LAST = "black_last"
    """Delivers all; the last is black all over."""
    MIXED = "mixed"
    """Lacks its first result, and its last one ends too early."""
    SURPLUS = "surplus"
    """Delivers all, and one that nobody asked for."""
    IGNORE_CANCEL = "ignore_cancel"
    """Runs on when told to stop, slowly."""
    FALL_SILENT = "fall_silent"
    """Accepts, then answers nothing any more until it is restarted."""

    @classmethod
    def parse(cls, text: str) -> tuple["Script", ...]:
        """From a comma-separated list.

        Raises:
            ValueError: A name isn't known, or there is none.
        """
        scripts = tuple(cls(name.strip()) for name in text.split(",") if name.strip())
        if not scripts:
            raise ValueError("name at least one script")
        return scripts
