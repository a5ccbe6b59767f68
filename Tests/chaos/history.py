"""The history of a run: what clients did and saw, as a list of entries with monotonic times. Most checkers
read nothing else.

An operation is two entries with one number, `invoke` and its outcome:

- `ok`: acknowledged;
- `fail`: refused with the promise that nothing happened (a send that was answered 503 or 429);
- `unknown`: whether the operation took effect is not known (504, a broken connection, a 503 to a repeatable
operation).

An event that a device saw is one entry. Entries are dictionaries, so that a history is a file of JSON lines.
"""
import itertools
import json
import threading
import time

# An operation that was answered 503, or not at all, may take effect until its deadline: a gateway allows 25
# s.
LATEST_EFFECT = 27.0


class History:
    def __init__(self):
        self.entries = []
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def note(self, kind, **fields):
        entry = {"t": time.monotonic(), "kind": kind, **fields}
        with self._lock:
            self.entries.append(entry)
        return entry

    def so_far(self):
        """The entries until now. Clients may go on adding entries."""
        with self._lock:
            return list(self.entries)

    def invoke(self, op, **fields):
        number = next(self._numbers)
        self.note("invoke", op=op, number=number, **fields)
        return number

    def complete(self, number, outcome, status, **fields):
        self.note(outcome, number=number, status=status, **fields)

    def write(self, path):
        with self._lock, open(path, "w", encoding="utf-8") as file:
            for entry in self.entries:
                file.write(json.dumps(entry) + "\n")


def operations(entries):
    """Each operation as one dictionary: the fields of `invoke`, `began`, `ended` (`None` for never),
    `outcome`, `status`.

    Where a database has lost records (an entry `lost`, from `since` to its own time), the operations that it
    acknowledged in that time get the outcome `lost`: their effect may be there or not, and cannot come
    later."""
    found = {}
    for entry in entries:
        if entry["kind"] == "lost":
            for operation in found.values():
                if operation["outcome"] == "ok" and operation["ended"] >= entry["since"]:
                    operation["outcome"] = "lost"
        if entry["kind"] == "invoke":
            found[entry["number"]] = {**entry, "began": entry["t"], "ended": None, "outcome": "unknown",
                                      "status": 0}
        elif entry["kind"] in ("ok", "fail", "unknown"):
            operation = found[entry["number"]]
            operation.update({key: value
                              for key, value in entry.items() if key not in ("t", "kind", "number")})
            operation["ended"], operation["outcome"] = entry["t"], entry["kind"]
    return list(found.values())


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
