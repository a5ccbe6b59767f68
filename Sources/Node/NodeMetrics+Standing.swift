import NodeCore

// Whether the node takes traffic, and which databases answer.

extension NodeMetrics {
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
