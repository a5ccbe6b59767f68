"""The OpenAPI document against the specification, and against recorded requests of SDKs: see openapi.sh."""
import json
import os
import re
import sys

import jsonschema
import openapi_spec_validator

from system.checks import check

DOCUMENT, RECORDINGS = sys.argv[1:]


def operations(document):
    """(method, pattern of the path, operation) of each operation."""
    for path, item in document["paths"].items():
        pattern = re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))
        for method, operation in item.items():
            yield method.upper(), pattern, operation


def find(document, request):
    """The operations of a recorded request."""
    path = request["path"].partition("?")[0].replace("messages%3Asend", "messages:send")
    return [operation for method, pattern, operation in operations(document)
            if method == request["method"] and pattern.fullmatch(path)]


def main():
    with open(DOCUMENT, encoding="utf-8") as file:
        document = json.load(file)
    check(document["openapi"].startswith("3.1."), "it is OpenAPI 3.1")
    openapi_spec_validator.validate(document)
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    check(len(set(ids)) == len(ids) > 60 and all(item[2]["summary"] for item in operations(document)),
          "each operation has an id and a summary")
    check(not find(document, {"method": "POST", "path": "/fcm/send"})
          and not find(document, {"method": "DELETE", "path": "/token"}),
          "a path that is not there matches nothing")
    schema = document["components"]["schemas"]["SendRequest"]
    validator = jsonschema.Draft202012Validator(schema)
    seen = 0
    for name in sorted(os.listdir(RECORDINGS)):
        with open(os.path.join(RECORDINGS, name), encoding="utf-8") as file:
            exchanges = json.load(file)["exchanges"]
        for exchange in exchanges:
            request = exchange["request"]
            found = find(document, request)
            assert found, (name, request["method"], request["path"])
            if found[0]["operationId"] == "send" and exchange["answer"]["status"] == 200:
                validator.validate(json.loads(request["body"]))
                seen += 1
    check(seen > 5, "every recorded request is an operation, and its message is of the schema")
    check(not validator.is_valid({"message": {"android": {"ttl": "3600"}}})
          and not validator.is_valid({"message": {"android": {"notification": {"proxy": "NO"}}}}),
          "the schema refuses a wrong message")


main()
