"""What shows a promise: the names of tests in this repository, and whether each is there.

    PushMessagesTests.VAPIDTests.vector   the function of a @Test: module, suite, function
    acceptance/apns.py:troubles           a function of a script below Tests, which the script calls
    acceptance/push_crypto.sh             a whole script below Tests
    conformance 63                        a row of Tests/conformance
"""
import ast
import functools
import glob
import os
import re

from system.process import ROOT

TESTS = os.path.join(ROOT, "Tests")
SUITE = re.compile(r"(?:@\w+(?:\(.*\))? )*(?:\w+ )*?(?:struct|class|enum|actor|extension) (\w+)")
TEST = re.compile(r"\s*@Test\b")
FUNCTION = re.compile(r"\bfunc (`[^`]+`|\w+)")
SWIFT_NAME = re.compile(r"\w+\.\w+\.\w+")


def swift_tests(text):
    """`Suite.function` of each @Test in the text of a file. Suites begin in the first column."""
    found, suite, is_test = set(), None, False
    for line in text.splitlines():
        if match := SUITE.match(line):
            suite = match[1]
        is_test = is_test or TEST.match(line) is not None
        if is_test and (match := FUNCTION.search(line)):
            found.add(f"{suite}.{match[1].strip('`')}")
            is_test = False
    return found


@functools.cache
def module_tests(module):
    """`swift_tests` of all files of one module of tests, the server's or the clients'."""
    found = set()
    # A module is a folder of its floor, if it has one.
    for root in (TESTS, os.path.join(TESTS, "*"), os.path.join(ROOT, "Clients/Tests")):
        for path in glob.glob(os.path.join(root, module, "**/*.swift"), recursive=True):
            with open(path, encoding="utf-8") as file:
                found |= swift_tests(file.read())
    return found


def called_functions(text):
    """The functions of a script that the script itself names outside of their definition."""
    tree = ast.parse(text)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return defined & named


@functools.cache
def script_functions(path):
    """`called_functions` of a file below Tests; None where there is no such file."""
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        return called_functions(file.read())


@functools.cache
def conformance_rows():
    """The numbers of the rows of Tests/conformance."""
    folder, found = os.path.join(TESTS, "conformance"), set()
    for name in os.listdir(folder):
        if name.startswith("rows_"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found |= set(re.findall(r"^def row_(\d+)\(", file.read(), re.MULTILINE))
    return found


def is_there(name):
    """Whether the test of this name is there."""
    if name.startswith("conformance "):
        return name.removeprefix("conformance ") in conformance_rows()
    if SWIFT_NAME.fullmatch(name):
        module, test = name.split(".", 1)
        return test in module_tests(module)
    path, _, function = name.partition(":")
    path = os.path.join(TESTS, path)
    if not function:
        return os.path.isfile(path) and os.access(path, os.X_OK)
    return function in (script_functions(path) or ())
