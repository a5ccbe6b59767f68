"""House rules of Python, shell and pages, beside those that ruff and shellcheck know: rules.py prints each
line that breaks a rule, and ends with 1 where there is one. The limits are those of Tests/HouseRulesTests for
Swift."""
import ast
import io
import os
import re
import subprocess
import sys
import tokenize

FILE_LENGTH_MAX = 400
FUNCTION_LENGTH_MAX = 70
# docs/style.md bans these words.
BANNED = re.compile(
    r"\b(whoever|that one|it was so|in so many words|anew|those who|of before|which see|besides)\b",
    re.IGNORECASE)
# The parts of a decision, in their order. The first two are in each.
DECISION_PARTS = ["Context", "Choice", "Consequences", "Measured", "Instead of"]
# This page names the banned words.
WITH_BANNED = ("docs/style.md",)
SNAKE_CASE = re.compile(r"_*[a-z][a-z0-9_]*")
SHELL_FUNCTION = re.compile(r"^(\s*)(?:function\s+)?([\w-]+)\s*\(\)\s*\{(.*)$")
SHELL_NAME = re.compile(r"^\s*(?:local\s+|export\s+|readonly\s+)?([A-Za-z_]\w*)\+?=")


def kind_of(path, text):
    """"python", "shell", "page", "notes" for a file with comments behind "#", or "" for another file."""
    first = text.split("\n", 1)[0]
    if path.endswith(".py") or (first.startswith("#!") and "python" in first):
        return "python"
    if path.endswith(".sh") or (first.startswith("#!") and re.search(r"\b(ba)?sh\b", first)):
        return "shell"
    if path.endswith(".md"):
        return "page"
    if path.endswith((".story", ".yaml", ".cfg", ".service", "Dockerfile")):
        return "notes"
    return ""


def broken(path, text):
    """(line, sentence) for each line of a file that breaks a rule."""
    kind = kind_of(path, text)
    if not kind:
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
    functions, comments = (python_parts if kind == "python" else shell_parts)(text)
    for name, line, length in functions:
        if length > FUNCTION_LENGTH_MAX:
            found.append((line,
                          f"{name} has {length} lines, at most {FUNCTION_LENGTH_MAX}: split the function"))
    found += banned(comments)
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


def files():
    """(path, text) of each file that has rules here, in order."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, check=True,
                            capture_output=True, text=True).stdout
    for path in sorted(filter(None, listed.split("\0"))):
        try:
            with open(os.path.join(root, path), encoding="utf-8") as file:
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
    for path, text in files():
        count += 1
        for line, sentence in broken(path, text):
            wrong += 1
            print(f"{path}:{line}: {sentence}")
    print(f"{count} files of Python, shell and prose, {wrong} lines that break a rule")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
