"""All time-outs, in one table, each with its reason."""

from datetime import timedelta

WORKFLOW_TASK = timedelta(seconds=2)
"""With the default of 10 s a killed orchestrator costs the caller 10 s; a 4 s hold still works under 2 s."""
STICKY_QUEUE = timedelta(seconds=2)
"""As above, for a workflow cached in the killed worker."""
ADMISSION = timedelta(seconds=3)
"""The API's own wait for an admission; `admit_by` is this far ahead, so no hold is taken for who gave up."""
LOCK = timedelta(milliseconds=500)
"""Postgres `lock_timeout` of money steps: a hot account must not fill the worker's slots."""
MONEY_STEP = timedelta(seconds=5)
"""One try of a local activity that touches money; tried again for ever, it is idempotent."""
OFFER = timedelta(seconds=2)
"""An offered lease that the workflow hasn't accepted by then lapses."""
BEAT = timedelta(seconds=1)
"""A running activity beats, and a host reports, this often."""
HEARTBEAT = timedelta(seconds=4)
"""Four missed beats: the host or its agent is gone."""
REPORT_FRESH = timedelta(seconds=5)
"""A card whose last report is older takes no new work."""
HOST_GONE = timedelta(seconds=30)
"""Another host may have a card only after its own has been silent for so long: six times what makes it stale."""
CARD_PICKUP = timedelta(seconds=30)
"""A leased card whose agent doesn't take the task by then is treated as away."""
RUN_ENDS_AFTER_DEADLINE = timedelta(seconds=60)
"""A run may end this much after its own time limit, to report and to upload."""
INSPECT = timedelta(seconds=120)
"""For each output: decoding the largest allowed one to its end takes about 20 s on one busy core."""
KEEP = timedelta(seconds=60)
"""One transaction and, for large files, a look at the store; tried again when it takes longer."""
CANCEL_ANSWER = timedelta(seconds=2)
"""A cancel that isn't confirmed by then is answered `cancel_requested`."""
RECONCILE_FIRST = timedelta(seconds=5)
"""The first look for evidence: about as long as a host's agent takes to come back."""
RECONCILE_MAX = timedelta(minutes=5)
"""Looks back off to one in 5 min, so that a day of silence is some 300 of them, not thousands."""
RESOLVE_BY = timedelta(hours=24)
"""After this, an unknown outcome is raised to an operator."""
LOOK_PICKUP = timedelta(seconds=4)
"""A host has a slot free for questions about its journal: one that doesn't take one by then is away, as after four
missed beats. The store is asked next; an operator who decided to settle waits for both."""
LOOK_ANSWER = timedelta(seconds=10)
"""Reading one entry of the journal takes milliseconds; its disk may be busy."""
STORE_PICKUP = timedelta(seconds=15)
"""A media worker that doesn't take a look in the store by then is busy or away; the next look is the retry."""
STORE_LOOK = timedelta(seconds=120)
"""Reading every result of a run once, to know its digest."""
LATE_LOOK = timedelta(days=7)
"""So long a result is looked for after a release without an outcome: a host's journal remembers no longer, so
that later nobody could prove anything. The table `late_look` has the same bound."""
LATE_LOOK_MAX = timedelta(hours=6)
"""Looks back off to four a day: some 45 in all, and a host that comes back is asked the same day."""
WAIT_DEFAULT = timedelta(minutes=30)
"""A generation not started by then expires and is released, unless the model's manifest says otherwise."""
SWEEP_STEP = timedelta(minutes=5)
"""One step of the sweep: looking at 10,000 workflows takes about 20 s, and the step beats meanwhile."""
SWEEP_STEP_SILENCE = timedelta(seconds=30)
"""A step of the sweep that doesn't beat for so long has lost its worker; one statement of it may take 4 s."""
SWEEP_RUN = timedelta(minutes=15)
"""A whole sweep. It holds no money, so the server may end it: a stuck one must not keep the next from starting."""
