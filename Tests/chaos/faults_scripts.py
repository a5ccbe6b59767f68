"""Faults with scripts of their own in Tests/acceptance: their loads arrive all at once, or their clusters
have other sizes."""
from registry import FAULTS, Fault

for number, title, *script in (
        ("42", "syncs of half a second under 900 sends to a topic of thousands in one partition",
         "stalled_disk.sh"),
        ("43", "6,000 sends for one partition, whose owner was killed, before another has it",
         "takeover_burst.sh"),
        ("44", "a disk that is full for a minute, of the embedded engine and of PostgreSQL", "disk_full.sh",
         "60"),
        ("45", "a process is stopped while it changes projects", "cluster_frozen.sh"),
        ("58", "owners are killed in a fan-out to 5,000 devices of a push service, which fails for a minute",
         "push_owner_killed.sh", "5000", "60")):
    FAULTS[number] = Fault(number, title, None, script=tuple(script))
