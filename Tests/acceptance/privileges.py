"""The privileges of a process. As a program, `privileges.py PID…` ends with 1 where a process has any."""
import os
import sys


def privileges(pid):
    """A text for each privilege of the process. A node must have none."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        fields = {name: value.split() for name, value in (line.split(":", 1) for line in file)}
    found = ["user 0"] if "0" in fields["Uid"] else []
    sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"]
    # Only root can start a process with an empty bounding set and no_new_privs (tools/unprivileged does).
    if os.getuid() == 0:
        sets.append("CapBnd")
        found += ["no_new_privs is not set"] if fields["NoNewPrivs"] != ["1"] else []
    return found + [f"{name} {fields[name][0]}" for name in sets if int(fields[name][0], 16) != 0]


if __name__ == "__main__":
    said = {pid: privileges(pid) for pid in sys.argv[1:]}
    print(*(f"{pid}: {', '.join(words) or 'no privileges'}" for pid, words in said.items()), sep="\n")
    sys.exit(1 if any(said.values()) or not said else 0)
