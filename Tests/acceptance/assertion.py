"""The token exchange of a backend's library: it signs an assertion with a service account's key and gets an
access token."""
import base64
import http.client
import json
import os
import subprocess
import time


def _part(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def assertion(account, folder):
    """An assertion that is signed with the account's key, which goes into a file in `folder`."""
    now = int(time.time())
    head = {"alg": "RS256", "kid": account["private_key_id"]}
    claims = {"iss": account["client_email"], "aud": account["token_uri"], "iat": now, "exp": now + 3600,
              "scope": "https://www.googleapis.com/auth/firebase.messaging"}
    text = _part(json.dumps(head).encode()) + b"." + _part(json.dumps(claims).encode())
    key = os.path.join(folder, "key.pem")
    with open(key, "w", encoding="ascii") as file:
        file.write(account["private_key"])
    seal = subprocess.run(["openssl", "dgst", "-sha256", "-sign", key], input=text, capture_output=True,
                          check=True)
    return (text + b"." + _part(seal.stdout)).decode()


def exchange(node, account):
    """The status and the JSON body with which `node` answers an assertion of `account`."""
    form = ("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
            + assertion(account, node.folder))
    connection = http.client.HTTPConnection(node.host, node.port, timeout=40)
    try:
        connection.request("POST", "/token", form, {"content-type": "application/x-www-form-urlencoded"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def access_token(node, account):
    status, answer = exchange(node, account)
    if status != 200:
        raise SystemExit(f"FAIL: no token: {status} {answer}")
    return answer["access_token"]
