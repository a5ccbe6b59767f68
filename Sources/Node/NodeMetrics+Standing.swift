import Edge
import NodeCore
import Partitions

// Whether the node takes traffic, which databases answer, and what devices have lost.

extension NodeMetrics {
    func watchAnswers(_ answers: AnswerCounters) {
        for status in AnswerCounters.statuses + [nil] {
            registry.counter(
                "tidecast_requests_total", "Requests answered, by status; a stream counts when it begins.",
                labels: [("status", status.map { "\($0)" } ?? "other")],
                read: { Double(answers.count(status)) })
        }
    }

    func watchDrops(_ counters: NodeCounters) {
        for reason in DropReason.allCases {
            registry.counter(
                "tidecast_messages_dropped_total",
                "Messages that devices lost before they were delivered, one for each device and message.",
                labels: [("reason", reason.rawValue)], read: { Double(counters.dropped(reason)) })
        }
    }

    func watchStanding(_ shared: NodeShared) {
        registry.gauge(
            "tidecast_ready", "Whether the node takes traffic: 1 or 0; /readyz says why not.",
            read: { shared.notReady == nil ? 1 : 0 })
        guard shared.isClustered else { return }
        for database in 0..<shared.map.databaseCount {
            let labels = [("database", "\(database + 1)")]
            registry.gauge(
                "tidecast_database_up", "Whether the database answers this node: 1 or 0.", labels: labels,
                read: { shared.cluster?.current.awaySince[database] == nil ? 1 : 0 })
            registry.gauge(
                "tidecast_database_away_seconds",
                "For how long the database has been away; 0 where it answers.", labels: labels,
                read: {
                    guard let since = shared.cluster?.current.awaySince[database] else { return 0 }
                    return Double(Clock.monotonic().since(since).milliseconds) / 1000
                })
        }
    }
}
