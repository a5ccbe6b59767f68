"""Stored data of a revision: data folders, and dumps of databases. See formats.py."""
import json
import os
import subprocess
import tarfile


def pack(folder, path):
    def wanted(entry):
        return entry if entry.isfile() or entry.isdir() else None
    with tarfile.open(path, "w:xz", preset=9) as out:
        out.add(folder, "data", filter=wanted)


def unpack(path, folder):
    """Unpacks a data folder, and gives it to the user that runs the tests' servers."""
    with tarfile.open(path) as file:
        file.extractall(folder)
    if os.getuid() == 0:
        owner = os.stat(folder).st_uid
        for place, folders, files in os.walk(folder):
            for name in folders + files:
                os.chown(os.path.join(place, name), owner, -1)
    return os.path.join(folder, "data")


def dump(database):
    text = subprocess.run(database.client("pg_dump", "--no-owner"), check=True, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True).stdout
    # Newer versions of pg_dump write these commands, and older versions of psql do not know them.
    return "".join(line
                   for line in text.splitlines(True) if not line.startswith(("\\restrict", "\\unrestrict")))


def restore(database, text):
    subprocess.run(database.client("psql", "-XqAt", "-v", "ON_ERROR_STOP=1"), check=True, input=text,
                   text=True, stdout=subprocess.DEVNULL)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
