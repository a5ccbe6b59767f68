"""House rules of Python, shell, JavaScript and pages, beside those that linters know: rules.py prints each
line that breaks a rule, and ends with 1 if there is one. The limits are those of Tests/HouseRulesTests for
Swift; of Swift this file knows only how often comments use a word."""
import ast
import io
import os
import re
import subprocess
import sys
import tokenize

FILE_LENGTH_MAX = 400
FUNCTION_LENGTH_MAX = 70
# Of JavaScript. ruff knows the limit for Python.
LINE_LENGTH_MAX = 110
# docs/style.md bans these words.
BANNED = re.compile(
    r"\b(whoever|that one|it was so|in so many words|anew|those who|of before|which see|besides)\b",
    re.IGNORECASE)
# How often a word may be used, for each thousand words of docs/*.md and README.md together, and of the
# comments of all Swift sources together: `if` is the word for a condition, and machines return, receive,
# store and report.
CEILINGS = {"where": 2.5, "stand|stands|stood|standing": 0.2, "tell|tells|told|telling": 0.4,
            "hear|hears|heard|hearing": 0.1, "former": 0.3, "of (?:its|their|one's) own": 0.1}
# As `wc -w` counts README.md and all pages below docs/, without a page that is a program's output.
PAGES_WORDS_MAX = 55_000
# The parts of a decision, in their order. The first two are in each.
DECISION_PARTS = ["Context", "Choice", "Consequences", "Measured", "Instead of"]
# This page names the banned words.
WITH_BANNED = ("docs/style.md",)
SNAKE_CASE = re.compile(r"_*[a-z][a-z0-9_]*")
SHELL_FUNCTION = re.compile(r"^(\s*)(?:function\s+)?([\w-]+)\s*\(\)\s*\{(.*)$")
SCRIPT_FUNCTION = re.compile(r"^(\s*)(?:export )?(?:async )?function\*? (\w+)\(")
SCRIPT_COMMENT = re.compile(r"(?:^|\s)//.*|^\s*/?\*.*")
SWIFT_COMMENT = re.compile(r"(?:^|\s)//+ ?(.*)")
SHELL_NAME = re.compile(r"^\s*(?:local\s+|export\s+|readonly\s+)?([A-Za-z_]\w*)\+?=")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The root has these, and files whose names begin with a dot.
TOP = {"Package.swift", "Sources", "Tests", "deploy", "docs", "README.md", "tools", "CONTRIBUTING.md",
       "SECURITY.md", "CHANGELOG.md", "Clients"}


def kind_of(path, text):
    """"python", "shell", "javascript", "swift" for a source, "page", "notes" for a file with comments behind
    "#", or "" for another file."""
    first = text.split("\n", 1)[0]
    if path.endswith(".py") or (first.startswith("#!") and "python" in first):
        return "python"
    if path.endswith(".sh") or (first.startswith("#!") and re.search(r"\b(ba)?sh\b", first)):
        return "shell"
    if path.endswith(".js"):
        return "javascript"
    if re.match(r"(Clients/)?Sources/.*\.swift$", path):
        return "swift"
    if path.endswith(".md"):
        return "page"
    if path.endswith((".story", ".yaml", ".cfg", ".service", "Dockerfile")):
        return "notes"
    return ""


def broken(path, text):
    """(line, sentence) for each line of a file that breaks a rule."""
    kind = kind_of(path, text)
    if kind in ("", "swift"):
        return []
    lines = text.splitlines()
    if kind in ("page", "notes"):
        if path in WITH_BANNED:
            return []
        found = banned(prose(lines) if kind == "page" else notes(lines))
        return found + (wrong_decision(path, lines) if path.startswith("docs/decisions/") else [])
    found = []
    if len(lines) > FILE_LENGTH_MAX:
        found.append((FILE_LENGTH_MAX + 1,
                      f"{len(lines)} lines, at most {FILE_LENGTH_MAX}: split the file by concept"))
    parts = {"python": python_parts, "shell": shell_parts, "javascript": script_parts}
    functions, comments = parts[kind](text)
    for name, line, length in functions:
        if length > FUNCTION_LENGTH_MAX:
            found.append((line,
                          f"{name} has {length} lines, at most {FUNCTION_LENGTH_MAX}: split the function"))
    found += banned(comments)
    if kind == "javascript":
        found += [(number, f"{len(line)} characters, at most {LINE_LENGTH_MAX}: wrap the line")
                  for number, line in enumerate(lines, 1) if len(line) > LINE_LENGTH_MAX]
    if kind == "shell":
        found += wrong_names(lines, functions)
    return sorted(found)


def banned(texts):
    """(line, sentence) for each banned word in numbered texts."""
    return [(line, f'"{word}" is not used (docs/style.md)') for line, text in texts
            for word in BANNED.findall(text)]


def prose(lines):
    """(line, text) of a page's lines, without blocks of code and without what stands in backticks."""
    is_code, found = False, []
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            found.append((number, re.sub(r"`[^`]*`", "``", line)))
    return found


def wordy(pages):
    """A sentence for each word that the pages, (path, text), use too often, and one for pages that are too
    long."""
    pages = [(path, text) for path, text in pages if path == "README.md" or re.match(r"docs/.*\.md", path)]
    spoken = " ".join(line for path, text in pages if path.count("/") < 2 and path not in WITH_BANNED
                      for _, line in prose(re.sub(r"\]\([^)]*\)", "]", text).splitlines()))
    found = too_frequent(spoken, "pages")
    length = sum(len(text.split()) for path, text in pages if path != "docs/metrics.md")
    if length > PAGES_WORDS_MAX:
        found.append(f"the pages have {length} words, at most {PAGES_WORDS_MAX}: make them shorter")
    return found


def wordy_comments(sources):
    """A sentence for each word that the comments of the Swift sources, (path, text), use too often. Backticks
    and names of rules do not count."""
    comments = (match[1] for _, text in sources for line in text.splitlines()
                if (match := SWIFT_COMMENT.search(line)))
    return too_frequent(" ".join(re.sub(r"`[^`]*`", "``", text) for text in comments), "comments")


def too_frequent(spoken, what):
    """A sentence for each word above its ceiling in the text."""
    words = len(re.findall(r"[^\W\d_][\w'’-]*", spoken))
    found = []
    for word, ceiling in CEILINGS.items():
        count = len(re.findall(rf"(?<![\w-])(?:{word})(?![\w-])", spoken, re.IGNORECASE))
        if count > ceiling * words / 1000:
            found.append(f'"{word}" is {count} times in {words} words of {what}, at most {ceiling} in 1,000')
    return found


def notes(lines):
    """(line, text) of each comment behind "#"."""
    return [(number, line[line.index("#"):]) for number, line in enumerate(lines, 1) if "#" in line]


def wrong_decision(path, lines):
    """What a decision has against its form: its title has its file's number, and its parts are those of all
    decisions."""
    number = os.path.basename(path)[:4]
    parts = [(line, text[3:]) for line, text in enumerate(lines, 1) if text.startswith("## ")]
    named = [name for _, name in parts]
    found = []
    if not re.match(rf"# {number}: \S", lines[0]):
        found.append((1, f'the title of a decision begins with "# {number}: "'))
    if named != [name for name in DECISION_PARTS if name in named] or named[:2] != DECISION_PARTS[:2]:
        found.append((parts[0][0] if parts else 1,
                      "a decision has " + ", ".join(DECISION_PARTS) + " in this order, and the first two"))
    return found


def python_parts(text):
    """(name, line, length) of each function, and (line, text) of each comment and docstring. ruff knows the
    names."""
    tree, functions, comments = ast.parse(text), [], []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions.append((node.name, node.lineno, node.end_lineno - node.lineno + 1))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            said = ast.get_docstring(node)
            if said:
                comments.append((node.body[0].lineno, " ".join(said.split())))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.append((token.start[0], token.string))
    return functions, comments


def shell_parts(text):
    """(name, line, length) of each function, and (line, text) of each comment on a line of its own."""
    functions, comments, lines = [], [], text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            comments.append((number, line))
        match = SHELL_FUNCTION.match(line)
        if match:
            indent, name, rest = match.groups()
            is_short = rest.rstrip().endswith("}")
            end = number if is_short else next(
                (last for last in range(number + 1, len(lines) + 1)
                 if lines[last - 1].startswith(indent + "}")), len(lines))
            functions.append((name, number, end - number + 1))
    return functions, comments


def script_parts(text):
    """(name, line, length) of each function of JavaScript, which ends with a brace at its own indent, and
    (line, text) of each line with a comment."""
    functions, comments, lines = [], [], text.splitlines()
    for number, line in enumerate(lines, 1):
        if match := SCRIPT_COMMENT.search(line):
            comments.append((number, match[0]))
        if match := SCRIPT_FUNCTION.match(line):
            end = next((last for last in range(number + 1, len(lines) + 1)
                        if lines[last - 1].startswith(match[1] + "}")), len(lines))
            functions.append((match[2], number, end - number + 1))
    return functions, comments


def wrong_names(lines, functions):
    """The names of shell functions and variables that are neither snake_case nor, for the environment, in
    capitals."""
    found = [(line, f"{name} is not snake_case")
             for name, line, _ in functions if not SNAKE_CASE.fullmatch(name)]
    for number, line in enumerate(lines, 1):
        match = SHELL_NAME.match(line)
        if match and not SNAKE_CASE.fullmatch(match[1]) and match[1] != match[1].upper() and match[1] != "_":
            found.append((number, f"{match[1]} is neither snake_case nor in capitals"))
    return found


def strangers(paths):
    """What lies in the repository's root and does not belong there, such as a compiler's product."""
    return [f"{path}: what is this in the root?" for path in paths
            if path.partition("/")[0] not in TOP and not path.startswith(".")]


def paths_of_all():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    return sorted(filter(None, listed.split("\0")))


def files():
    """(path, text) of each file that has rules here, in order."""
    for path in paths_of_all():
        try:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if kind_of(path, text):
            yield path, text


def main():
    if sys.argv[1:2] == ["--list"]:
        print(*(path for path, text in files() if kind_of(path, text) == sys.argv[2]), sep="\n")
        return 0
    count, wrong = 0, 0
    pages, sources = [], []
    for path, text in files():
        kind = kind_of(path, text)
        if kind == "swift":
            sources.append((path, text))
            continue
        count += 1
        if kind == "page":
            pages.append((path, text))
        for line, sentence in broken(path, text):
            wrong += 1
            print(f"{path}:{line}: {sentence}")
    for sentence in wordy(pages) + wordy_comments(sources) + strangers(paths_of_all()):
        wrong += 1
        print(sentence)
    print(f"{count} files of Python, shell, JavaScript and prose, {wrong} lines that break a rule")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
