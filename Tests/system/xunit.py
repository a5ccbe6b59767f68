"""The counts of a JUnit report, as `swift test --xunit-output` writes it: xunit.py REPORT EXIT-CODE prints
how many tests passed, failed and were skipped. The exit code is that of `swift test`."""
import sys
import xml.etree.ElementTree


def counts(path):
    """(passed, failed, skipped) tests of the report. Raises OSError and ParseError."""
    passed, failed, skipped = 0, 0, 0
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def judge(path, code):
    """(passed, failed, skipped, complaint) of a run that ended with `code`. A run without a report or without
    a test, and a run that ended with an error and has no failed test in its report, count as one failure, and
    the complaint says why."""
    try:
        passed, failed, skipped = counts(path)
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        return 0, 1, 0, f"there is no report of the tests: {error}"
    if code != 0 and failed == 0:
        return passed, 1, skipped, f"the run ended with {code}, and the report has no failed test"
    if passed + failed == 0:
        return 0, 1, skipped, "no test was run"
    return passed, failed, skipped, ""


def main():
    passed, failed, skipped, complaint = judge(sys.argv[1], int(sys.argv[2]))
    if complaint:
        print(complaint, file=sys.stderr)
    print(passed, failed, skipped)


if __name__ == "__main__":
    main()
