"""The targets: what is measured, and which figures must hold."""
USUAL = ["T1", "T2", "T3", "T4", "T5", "T6", "T7", "T9", "T11"]

# The targets: (figure, unit, must, aim). A smaller figure is better unless the unit is a rate.
TARGETS = {
    "T1": ("durable topic send: h2c, 16 connections × 100 streams, 313-byte body, bearer checked, quota"
           " taken, synced",
           [("us", "CPU-µs a send", 7, 4)]),
    "T2": ("fan-out to 10,000 streams on 100 connections, one message in flight",
           [("us", "CPU-µs a delivery", 0.8, 0.35)]),
    "T3": ("fan-out to 10,000 connections × 1 stream, one in flight", [("us", "CPU-µs a delivery", 13, 10)]),
    "T4": ("the same, four in flight", [("us", "CPU-µs a delivery", 5, 3)]),
    "T5": ("1,000 topics × 10 streams, 256 messages outstanding, durable sends included",
           [("us", "CPU-µs a delivery", 12, 6)]),
    "T6": ("durable subscribe, `batchAdd` of 1,000 tokens each",
           [("us", "CPU-µs a subscription", 3, 1), ("rate", "subscriptions a second", 300_000, 1_000_000)]),
    "T7": ("send to the device's stream, 100 a second, durable at both partitions: latency",
           [("p50", "ms, p50", 8, 3), ("p99", "ms, p99", 30, None)]),
    "T8": ("resident memory with 10 M devices, 1 M topics (Zipf 1.0), 50 M subscriptions, one node",
           [("gib", "GB resident", 1.6, 1.2)]),
    "T9": ("resident memory of a connection with one idle stream, and of each further stream",
           [("connection", "KiB a connection", 22, 14), ("stream", "KiB a further stream", 0.8, 0.5)]),
    "T10": ("condition over five topics of 1 M members each, from send to the last partition's fan-out",
            [("last_p50", "ms, p50", 80, 30)]),
    "T11": ("restart of a node with 10 M subscriptions, from exec to ready", [("ready", "s", 4, 2)]),
    "T12": ("`kill -9` of an owner, of three nodes, to the first acknowledged send to each of its topics",
            [("p50", "s, p50", 3, 1.5), ("p99", "s, p99", 6, 3)]),
    "T13": ("planned leave of a node, of three, under load", [("failed", "failed requests", 0, 0),
                                                              ("longest", "s, the longest request", 2, 0.5)]),
    "T14": ("admitted over a quota of 200 sends a second, three gateways together, the owner of its bucket"
            " killed at full load",
            [("over", "% of one second's rate", 5, 0)]),
    "T15": ("gossip of a node among 50, simulated, 5 % of the datagrams lost, 24 simulated hours",
            [("packets", "packets a second, sent", 20, 12),
             ("kilobytes", "KB a second, sent, with all headers", 20, None),
             ("false", "false deaths", 0, 0)]),
    "T16": ("simulated hours of a 5-node cluster for an hour of CPU",
            [("hours", "simulated hours for an hour of CPU", 20, 100)]),
    "T17": ("a full handshake of TLS 1.3 and its end, and with one HTTP/2 request in between; both servers"
            " with one worker and the"
            " same certificate (P-256)",
            [("handshake", "times nginx's CPU", 1.1, 1.0),
             ("request", "times nginx's CPU, with a request", 1.1, 1.0)]),
    "T18": ("fan-out to 4,000 devices at a push service on loopback that answers at once: encrypted, signed,"
            " accepted, acknowledgements in the journal",
            [("web", "CPU-µs a message, Web Push", 600, 200), ("apns", "CPU-µs a message, APNs", 600, 200)]),
    "T19": ("fan-out to 66,666 devices at two push services, beside 33,332 at two dead ones: each"
            " answer is 503, and connections without an answer; then a `kill -9` in the middle",
            [("share", "% of the rate without the dead services", 90, None),
             ("growth", "MiB more resident memory", 256, None),
             ("repeated", "messages that come again", 512, None), ("missing", "devices without it", 0, 0)]),
    "PG": ("T1 to T7 on PostgreSQL, on one node, as a multiple of the same on SQLite in the same run",
           [(name, f"times, {name}", 1.3, None) for name in ("T1", "T2", "T3", "T4", "T5", "T6", "T7")]),
    "SOAK": ("ten minutes of T1's load on PostgreSQL beside an idle transaction: the slowest of the last"
             " three minutes through"
             " the fastest of the first three", [("kept", "share of the rate", None, None)]),
    "GROWTH": ("T5's load on one, two and four shards, one gateway: what the busiest of four spends of what"
               " one alone does",
               [("share", "share of the busiest", None, None), ("mean", "share of the mean", None, None)]),
}
