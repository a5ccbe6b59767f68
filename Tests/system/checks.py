"""Checks that end a test at the first failure, and waits that poll a condition and have a bound."""
import time


def check(condition, what):
    """Prints `what` where the condition is true. Ends the test with `FAIL` where it is false."""
    if not condition:
        raise SystemExit(f"FAIL: {what}")
    print(f"ok    {what}", flush=True)


def until(condition, limit, step=0.05):
    """Seconds until `condition` is true, which is looked at every `step` s; None where `limit` s pass
    before."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > limit:
            return None
        time.sleep(step)
    return time.monotonic() - began


def wait(condition, what, limit=120):
    """Waits until `condition` is true. Ends the test with `FAIL` after `limit` s."""
    if until(condition, limit) is None:
        raise SystemExit(f"FAIL: waited {limit} s for {what}")
