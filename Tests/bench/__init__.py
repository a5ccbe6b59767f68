"""The parts of tools/bench: the targets, the servers and their peers, the loads, and the report."""
