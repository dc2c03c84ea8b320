"""`python -m workers.api`: the HTTP surfaces, one process."""

import signal
import sys

import uvicorn

from api.app import create_app
from api.wire import Wire
from infra import metrics
from infra.settings import Settings
from infra.telemetry import configure_logging

DRAIN_S = 10
"""Calls that are still waiting for a picture by then are cut; the same operation id finds their task."""
KEEP_ALIVE_S = 20


def main() -> int:
    """Serve with settings from the environment, until SIGTERM."""
    settings = Settings()
    configure_logging("api")
    metrics.serve(settings, "api")
    # uvicorn finishes on SIGTERM and then sends it to itself again; ignored there, the process ends with 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    uvicorn.run(
        create_app(settings),
        host=settings.api_host,
        port=settings.api_port,
        loop="uvloop",
        http=Wire,
        log_config=None,
        access_log=False,  # the envelope writes its own line, without query strings
        server_header=False,
        proxy_headers=False,  # `api/auth/address.py` reads them, from trusted proxies
        timeout_graceful_shutdown=DRAIN_S,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
