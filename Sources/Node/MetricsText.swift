import Routing

/// The metrics in Prometheus' text format 0.0.4.
enum MetricsText {
    static func make(_ shared: NodeShared) -> String {
        var text = ""
        func counter(_ name: String, _ help: String, _ value: some BinaryInteger) {
            text +=
                "# HELP tidecast_\(name) \(help)\n# TYPE tidecast_\(name) counter\ntidecast_\(name) \(value)\n"
        }
        let engine = shared.engine.counters
        counter(
            "sends_accepted_total", "Messages accepted.",
            shared.counters.sendsAccepted.load(ordering: .relaxed))
        counter("journal_commits_total", "Transactions of the journal.", engine.commits)
        counter("journal_rows_total", "Records appended to the journal.", engine.rows)
        counter("journal_bytes_total", "Bytes appended to the journal.", engine.bytes)
        counter(
            "partitions_lost_total", "Partitions that were read again from the journal.",
            shared.counters.partitionsLost.load(ordering: .relaxed))
        counter(
            "fingerprint_differences_total", "Pairs of partitions found to count different members.",
            shared.counters.fingerprintDifferences.load(ordering: .relaxed))
        return text
    }
}
