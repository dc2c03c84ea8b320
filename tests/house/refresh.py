"""Write what is made from the code: `python -m tests.house.refresh`."""

import json
import sys

from tests.house.contract_fields import RECORD, fields_of, grown, messages, recorded
from tests.house.reference import PAGES
from tests.house.sources import ROOT


def main() -> None:
    """Write the reference pages and let the record of message fields grow."""
    for path, page in PAGES.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(), encoding="utf-8")
    now = {name: fields_of(message) for name, message in messages().items()}
    RECORD.write_text(json.dumps(grown(recorded(), now), indent=2) + "\n", encoding="utf-8")
    written = [path.relative_to(ROOT).as_posix() for path in (*PAGES, RECORD)]
    sys.stdout.write("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
