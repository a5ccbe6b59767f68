"""What the Python scripts of this repository share: server processes, ports, PostgreSQL, devices, loads,
clusters and network namespaces. Scripts put the folder `Tests` on Python's path, and import from `system`."""
