"""The parts of libraries.py in other languages: libraries.rb and libraries.php print one line of JSON for
each call, {"call", "status", "body"}."""
import json
import os
import pathlib
import subprocess
import urllib.request

from checks import PLAIN, PROJECT, check

WANTED = {"token": 200, "send": 200, "topic": 200, "gone": 404, "bad": 400, "foreign": 403, "other": 403,
          "path": 404}


def call(method, path):
    """One call of a backend without a library."""
    request = urllib.request.Request(PLAIN + path, method=method,
                                     headers={"authorization": f"Bearer {os.environ['BEARER']}"})
    urllib.request.urlopen(request).read()


def run(language, phones):
    """Runs the language's script, and checks what each call was answered with."""
    script = pathlib.Path(__file__).with_name(f"libraries.{'rb' if language == 'ruby' else 'php'}")
    words = [language]
    if language == "php":
        words += ["-d", f"curl.cainfo={os.environ['SSL_CERT_FILE']}"]
    phones.subscribe(language)
    environment = {**os.environ, "TOKEN": phones.tokens[0], "SECOND": phones.tokens[1], "GONE": phones.gone,
                   "TOPIC": language}
    done = subprocess.run([*words, str(script)], env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        print(f"left out: {language}: {done.stdout.strip()}")
        return
    check(f"{language} ends well", done.returncode == 0, done.stderr)
    answers = {one["call"]: one for one in map(json.loads, done.stdout.splitlines())}
    for name, status in WANTED.items():
        answer = answers.get(name, {})
        check(f"{language} {name}", answer.get("status") == status, answer)
    ended = [name for name, one in answers.items()
             if "UNREGISTERED" in one["body"] or "NOT_FOUND" in one["body"]]
    check(f"{language}: only the device that is gone looks like it", ended == ["gone"], answers)
    if language == "ruby":
        check("ruby batchAdd", answers["batch"]["body"] == '{"results":[{}]}', answers["batch"])
        check("ruby topic_subscription", answers["relation"]["status"] == 200, answers["relation"])
        check("ruby info", "application" in json.loads(answers["info"]["body"]), answers["info"])
    phones.heard(f"{language} of {PROJECT}", f"{language}1", f"{language}2")
