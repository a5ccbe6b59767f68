"""Sixty promises about push services and the SDKs for devices, and the tests that show each:

    PYTHONPATH=Tests python3 Tests/conformance/push_rows.py     fails where a named test is not there

The names are those of system.evidence. `lacks` says what no test shows, and why.
"""
import sys

from push_promises import ROWS

from system.evidence import is_there


def wrong(rows):
    """A sentence for each row that has neither a test nor a reason, and for each test that is not there."""
    found = [] if [row.number for row in rows] == list(range(1, 61)) else ["the rows are not 1 to 60"]
    for row in rows:
        if not row.tests and not row.lacks:
            found.append(f"row {row.number} has neither a test nor a reason")
        found += [f"row {row.number}: there is no test {name}" for name in row.tests if not is_there(name)]
    return found


def main():
    sentences = wrong(ROWS)
    for sentence in sentences:
        print(f"FAIL  {sentence}")
    for row in ROWS:
        state = "ok  " if not row.lacks else "part" if row.tests else "open"
        print(f"{state}  {row.number:2}  {row.promise}" + (f" [{row.lacks}]" if row.lacks else ""))
    whole = sum(not row.lacks for row in ROWS)
    part = sum(bool(row.lacks and row.tests) for row in ROWS)
    print(f"{whole} rows are shown, {part} in part, {len(ROWS) - whole - part} not")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
