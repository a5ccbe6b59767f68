"""What a process may do that an ordinary one may not. As a program: privileges.py PID… ends with 1 where one may do anything."""
import os
import sys


def privileges(pid):
    """A word for each privilege; empty for a node as it should run."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        fields = {name: value.split() for name, value in (line.split(":", 1) for line in file)}
    found = ["user 0"] if "0" in fields["Uid"] else []
    sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"]
    # Only root can take the rest from a process that it starts.
    if os.getuid() == 0:
        sets.append("CapBnd")
        found += ["no_new_privs is not set"] if fields["NoNewPrivs"] != ["1"] else []
    return found + [f"{name} {fields[name][0]}" for name in sets if int(fields[name][0], 16) != 0]


if __name__ == "__main__":
    said = {pid: privileges(pid) for pid in sys.argv[1:]}
    print(*(f"{pid}: {', '.join(words) or 'no privileges'}" for pid, words in said.items()), sep="\n")
    sys.exit(1 if any(said.values()) or not said else 0)
