"""Runs the fixture of docs/emulator.md as pytest would: see suite_fixture.sh."""
import re
import sys
import types

# The page needs only the decorator of pytest.
sys.modules["pytest"] = types.SimpleNamespace(fixture=lambda **_: lambda function: function)


def main():
    with open(sys.argv[1], encoding="utf-8") as page:
        blocks = re.findall(r"```python\n(.*?)```", page.read(), re.S)
    block = next(text for text in blocks if "pytest" in text)
    names = {}
    exec(compile(block, "docs/emulator.md", "exec"), names)
    running = names["fcm"]()
    url = next(running)
    names["test_news"](url)
    running.close()


if __name__ == "__main__":
    main()
