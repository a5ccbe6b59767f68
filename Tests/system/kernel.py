"""What the kernel shows of a process."""
import os


def resident(pid):
    """Resident memory of the process, MiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1]) / 1024


def cpu_seconds(pid):
    """User and system time of the process so far, s."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descriptors(pid):
    """How many descriptors the process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid):
    """The ids of the process's children."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
