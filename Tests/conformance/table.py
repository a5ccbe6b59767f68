"""The table of FCM's behaviours. Prints each row's number and promise, and whether the promise held."""
import sys
import time

import rows_ios
import rows_libraries
import rows_messages
import rows_push
import rows_sdks
import rows_topics
import rows_wire
from harness import Server

ROWS = {**rows_messages.ROWS, **rows_topics.ROWS, **rows_wire.ROWS, **rows_sdks.ROWS,
        **rows_push.ROWS, **rows_ios.ROWS, **rows_libraries.ROWS}
# Row 19 checks the statuses that all other rows have seen, so it runs last.
ORDER = sorted(set(ROWS) - {19}) + [19]


def main():
    assert sorted(ROWS) == list(range(1, len(ROWS) + 1)), sorted(ROWS)
    wanted = [int(word) for word in sys.argv[1:]] or ORDER
    server = Server(quotas=["--subscriptions-per-second", "1000000", "--registrations-per-second", "1000000"])
    failed = 0
    try:
        for number in wanted:
            began = time.monotonic()
            promise = ROWS[number].__doc__.strip()
            try:
                ROWS[number](server)
                print(f"ok   {number:2}  {promise}  ({time.monotonic() - began:.1f} s)", flush=True)
            except Exception as problem:  # A row that breaks is a row that failed.
                failed += 1
                print(f"FAIL {number:2}  {promise}\n         {type(problem).__name__}: {problem}", flush=True)
    finally:
        server.close()
    print(f"{len(wanted) - failed} rows hold, {failed} do not")
    return 1 if failed else 0


sys.exit(main())
