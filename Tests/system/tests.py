"""Tests of this package's own parts that need no server: tests.py."""
import os
import tempfile
import unittest

from system import device, evidence, rules, xunit

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="TestResults" errors="0" tests="3" failures="2" skipped="1" time="1.5">
  <testcase classname="JournalTests.AppendTests" name="appends()" time="0.1" />
  <testcase classname="JournalTests.AppendTests" name="fails(_:)" time="0.1">
    <failure message="Expectation failed: 1 == 2" /><failure message="Expectation failed: 2 == 3" />
  </testcase>
  <testcase classname="JournalTests.AppendTests" name="`reads back`()" time="0.1" />
  <testcase classname="TLSTests.RootTests" name="needsRoot()"><skipped>root only</skipped></testcase>
</testsuite></testsuites>
"""


def lines_of(path, text):
    """The lines that break a rule."""
    return [line for line, _ in rules.broken(path, text)]


class RulesTests(unittest.TestCase):
    """Each rule must see planted text that breaks it, and must let the text at its limit pass."""

    def test_files(self):
        self.assertEqual(lines_of("a.py", "pass\n" * 400), [])
        self.assertEqual(lines_of("a.py", "pass\n" * 401), [401])
        self.assertEqual(lines_of("a.sh", "true\n" * 401), [401])
        self.assertEqual(lines_of("tools/a", "#!/usr/bin/env bash\n" + "true\n" * 400), [401])
        self.assertEqual(lines_of("a.md", "text\n" * 401), [])

    def test_functions_of_python(self):
        for head in ("def long():\n", "async def long():\n"):
            self.assertEqual(lines_of("a.py", head + "    pass\n" * 69), [])
            self.assertEqual(lines_of("a.py", "\n" + head + "    pass\n" * 70), [2])
        self.assertEqual(lines_of("tools/a", "#!/usr/bin/python3\ndef long():\n" + "    pass\n" * 70), [2])

    def test_functions_of_shell(self):
        self.assertEqual(lines_of("a.sh", "long() {\n" + "  true\n" * 68 + "}\n"), [])
        self.assertEqual(lines_of("a.sh", "\nlong() {\n" + "  true\n" * 69 + "}\n"), [2])
        self.assertEqual(lines_of("a.sh", "short() { true; }\n" + "true\n" * 90), [])

    def test_javascript(self):
        word = "an" + "ew"
        self.assertEqual(lines_of("a.js", "go();\n" * 401), [401])
        self.assertEqual(lines_of("a.js", "x" * 110 + "\n" + "x" * 111 + "\n"), [2])
        for head in ("function long() {\n", "export async function* long() {\n"):
            self.assertEqual(lines_of("a.js", head + "  go();\n" * 68 + "}\n"), [])
            self.assertEqual(lines_of("a.js", "\n" + head + "  go();\n" * 69 + "}\n"), [2])
        self.assertEqual(lines_of("a.js", f'go("{word}");\ngo(); // {word}\n/** It\n * begins {word}. */\n'),
                         [2, 4])

    def test_names_of_shell(self):
        self.assertEqual(lines_of("a.sh", "wait_ready() { true; }\nlocal_name=1\nTIDECAST=2\n"), [])
        self.assertEqual(lines_of("a.sh", "waitReady() { true; }\n  local badName=1\nwait-ready() {\n}\n"),
                         [1, 2, 3])

    def test_words(self):
        # The words are in pieces, so that this file does not break the rule.
        for word in ("an" + "ew", "that" + " one", "who" + "ever"):
            self.assertEqual(lines_of("a.py", f"# it begins {word}\n"), [1])
            self.assertEqual(lines_of("a.py", f'def ask():\n    """Asks\n    {word}."""\n'), [2])
            self.assertEqual(lines_of("a.sh", f"true\n  # it begins {word}\n"), [2])
            self.assertEqual(lines_of("a.py", f'print("{word}")\n'), [])
        self.assertEqual(lines_of("a.py", "# a new one\n"), [])

    def test_words_of_pages(self):
        word = "an" + "ew"
        self.assertEqual(lines_of("docs/a.md", f"It begins {word}.\n"), [1])
        self.assertEqual(lines_of("docs/a.md", f"The word `{word}`.\n```\nbegins {word}\n```\n{word}\n"), [5])
        self.assertEqual(lines_of("deploy/a.yaml", f"a: {word}\nb: 1  # made {word}\n"), [2])
        self.assertEqual(lines_of("a.story", f"# begins {word}\n"), [1])

    def test_ceilings_of_pages(self):
        def found(word, path="docs/a.md"):
            return len(rules.wordy([(path, "of " * 997 + f"{word} {word} {word}\n")]))
        self.assertEqual(found("where"), 1)
        for word in ("told", "Stands", "heard", "former", "of its own"):
            self.assertEqual(found(word), 1, word)
        for word in ("if", "`where`", "stand-in", "are-told", "[a](where)"):
            self.assertEqual(found(word), 0, word)
        self.assertEqual([found("where", path) for path in ("README.md", "docs/style.md", "docs/b/a.md",
                                                           "CONTRIBUTING.md")], [1, 0, 0, 0])
        self.assertEqual(rules.wordy([("docs/a.md", "of " * 997 + "where where if\n")]), [])

    def test_ceilings_of_comments(self):
        def found(*comments):
            text = "/// " + "of " * 997 + "\n" + "".join(f"    let a = 1  // {text}\n" for text in comments)
            return len(rules.wordy_comments([("Sources/A/a.swift", text)]))
        self.assertEqual(found("where", "where", "where"), 1)
        for word in ("told", "Stands", "heard", "former", "of its own"):
            self.assertEqual(found(word), 1, word)
        self.assertEqual(found("if", "`told`", "(rule: losses-are-told)", "where", "where"), 0)
        code = "for case let told in a where told {}\n"
        self.assertEqual(rules.wordy_comments([("Sources/A/a.swift", code)]), [])
        kinds = [rules.kind_of(path, "") for path in ("Sources/A/a.swift", "Clients/Sources/a.swift",
                                                      "Tests/ATests/a.swift", "Clients/Package.swift")]
        self.assertEqual(kinds, ["swift", "swift", "", ""])

    def test_length_of_pages(self):
        most = "of " * rules.PAGES_WORDS_MAX
        self.assertEqual(rules.wordy([("docs/b/a.md", most), ("Tests/a.md", most)]), [])
        self.assertEqual(len(rules.wordy([("docs/b/a.md", most), ("README.md", "of\n")])), 1)

    def test_root(self):
        self.assertEqual(rules.strangers(["README.md", "docs/a.md", ".gitignore"]), [])
        self.assertEqual(len(rules.strangers(["Edge.o", "notes/a.md"])), 2)

    def test_decisions(self):
        page = "# 0001: A\n\n## Context\n\n## Choice\n\n## Instead of\n"
        self.assertEqual(lines_of("docs/decisions/0001-a.md", page), [])
        for wrong, line in ((page.replace("0001:", "0001"), 1), (page.replace("0001", "0002"), 1),
                            (page.replace("Instead of", "Not chosen"), 3),
                            (page.replace("Choice", "Measured"), 3), (page + "## Measured\n", 3),
                            ("# 0001: A\n", 1)):
            self.assertEqual(lines_of("docs/decisions/0001-a.md", wrong), [line])


class ReportTests(unittest.TestCase):
    """The counts of `swift test`."""

    def judge(self, text, code):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.xml")
            if text is not None:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            return xunit.judge(path, code)[:3]

    def test_counts(self):
        self.assertEqual(self.judge(REPORT, 1), (2, 1, 1))

    def test_no_report(self):
        self.assertEqual(self.judge(None, 0), (0, 1, 0))
        self.assertEqual(self.judge("", 0), (0, 1, 0))
        self.assertEqual(self.judge(REPORT[:300], 1), (0, 1, 0))

    def test_no_test(self):
        self.assertEqual(self.judge("<testsuites><testsuite tests='0'/></testsuites>", 0), (0, 1, 0))
        self.assertEqual(self.judge("<testsuite><testcase><skipped/></testcase></testsuite>", 0), (0, 1, 1))

    def test_a_crash_without_a_failed_test(self):
        self.assertEqual(self.judge("<testsuite><testcase/><testcase/></testsuite>", 139), (2, 1, 0))


class EventTests(unittest.TestCase):
    """Server-sent events as a device reads them."""

    def test_events(self):
        lines = [b": welcome\n", b"\n", b"id: 7\n", b"event: message\n", b'data: {"a": "b: c"}\n', b"\n",
                 b"event: deleted_messages\r\n", b"data: {}\r\n", b"\r\n", b"id: 8\n", b"event: message\n"]
        self.assertEqual(list(device.events(lines)),
                         [("7", "message", '{"a": "b: c"}'), (None, "deleted_messages", "{}")])


class EvidenceTests(unittest.TestCase):
    """Names of tests: of those that are there, and of those that are not."""

    def test_swift(self):
        text = '@Suite("A") @MainActor final class FirstTests {\n    @Test("holds")\n    func holds() {}\n' \
               "    private func helper() {}\n    struct Inner {\n    }\n" \
               '    @Test(\n        "is refused", arguments: [1])\n    func refused(one: Int) {}\n}\n' \
               'extension SecondTests {\n    @Test("is") func `is`() {}\n}\n'
        self.assertEqual(evidence.swift_tests(text),
                         {"FirstTests.holds", "FirstTests.refused", "SecondTests.is"})

    def test_scripts(self):
        text = "def step():\n    pass\ndef forgotten():\n    pass\ndef main():\n    step()\nmain()\n"
        self.assertEqual(evidence.called_functions(text), {"step", "main"})

    def test_names(self):
        for name in ("PushMessagesTests.VAPIDTests.vector", "conformance 63", "acceptance/push_crypto.sh",
                     "TidecastMessagingTests.WireTests.paths", "acceptance/apns.py:troubles"):
            self.assertTrue(evidence.is_there(name), name)
        for name in ("PushMessagesTests.VAPIDTests.vectors", "PushTests.VAPIDTests.vector", "conformance 0",
                     "acceptance/push_crypto.py", "acceptance/none.sh", "acceptance/apns.py:trouble",
                     "acceptance/none.py:troubles", ""):
            self.assertFalse(evidence.is_there(name), name)


if __name__ == "__main__":
    unittest.main()
