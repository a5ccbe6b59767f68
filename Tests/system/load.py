"""A load: a thread that sends one message after the other, and what became of each send."""
import http.client
import itertools
import threading
import time

from system.checks import wait


class Load:
    """Sends to one topic, one message after the other with `pause` s between them, and keeps the outcome of
    each send."""

    def __init__(self, server, project="demo", topic="news", pause=0.01, numbers=None):
        self.server, self.topic, self.pause = server, topic, pause
        self.path, self.numbers = f"/v1/projects/{project}/messages:send", numbers or itertools.count(1)
        # By number: the status, 0 where the connection broke; and (begin, end) in s of the monotonic clock.
        self.statuses, self.times, self.lock = {}, {}, threading.Lock()
        self.is_over = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def message(self, number):
        """The message of this number. The number must be the datum `n`, by which devices know it."""
        return {"topic": self.topic, "data": {"n": str(number)}}

    def send(self, number):
        """Sends the message of this number, and returns the status; 0 where the connection broke."""
        try:
            return self.server.call("POST", self.path, {"message": self.message(number)})[0]
        except (OSError, http.client.HTTPException):
            return 0

    def run(self):
        """Sends until the load is over; the load's thread runs this."""
        for number in self.numbers:
            if self.is_over:
                return
            began = time.monotonic()
            status = self.send(number)
            with self.lock:
                self.statuses[number], self.times[number] = status, (began, time.monotonic())
            time.sleep(self.pause)

    def end(self):
        """Begins no further send, and waits for the one that is under way."""
        self.is_over = True
        self.thread.join()

    def outcomes(self, since=0):
        """The status of each finished send after number `since`."""
        with self.lock:
            return {number: status for number, status in self.statuses.items() if number > since}

    def mark(self):
        """The number of the newest finished send."""
        return max(self.outcomes(), default=0)

    def accepted(self, since=0):
        """The numbers of the sends after `since` that were answered with 200."""
        return [number for number, status in self.outcomes(since).items() if status == 200]

    def failures(self, since=0):
        """The sends after `since` that were not answered with 200, with their statuses."""
        return {number: status for number, status in self.outcomes(since).items() if status != 200}


def settled(loads, what, count, limit=40):
    """Waits until `count` further sends of each load are accepted. Ends the test after `limit` s."""
    marks = [load.mark() for load in loads]
    wait(lambda: all(len(load.accepted(mark)) >= count for load, mark in zip(loads, marks, strict=True)),
         f"sends after {what}", limit)


def failures(loads, marks):
    """The sends that failed since the marks, over all loads: (load, number, status) each."""
    return [(load.path, load.topic, *one) for load, mark in zip(loads, marks, strict=True)
            for one in load.failures(mark).items()]
