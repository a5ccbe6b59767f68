import FCMAPI
import Synchronization

/// What user agents of projects that are push services did.
final class UserAgentCounters: Sendable {
    let open = Atomic<Int>(0)
    let registered = Atomic<Int>(0)
    let complained = Atomic<Int>(0)
    let lost = Atomic<Int>(0)
    let skipped = Atomic<Int>(0)
    let delivered = Atomic<Int>(0)
    let undecipherable = Atomic<Int>(0)
    let undelivered = Atomic<Int>(0)

    func note(_ note: PushServiceNote) {
        switch note {
        case .registered: registered.add(1, ordering: .relaxed)
        case .complained: complained.add(1, ordering: .relaxed)
        case .lost: lost.add(1, ordering: .relaxed)
        case .skipped: skipped.add(1, ordering: .relaxed)
        case .acknowledged(.delivered): delivered.add(1, ordering: .relaxed)
        case .acknowledged(.undecipherable): undecipherable.add(1, ordering: .relaxed)
        case .acknowledged(.undelivered): undelivered.add(1, ordering: .relaxed)
        }
    }
}

extension NodeMetrics {
    func watchUserAgents(_ counters: UserAgentCounters) {
        registry.gauge(
            "tidecast_user_agents", "Connected user agents of projects that are push services.",
            read: { Double(counters.open.load(ordering: .relaxed)) })
        registry.counter(
            "tidecast_user_agent_channels_total", "Channels that user agents have registered.",
            read: { Double(counters.registered.load(ordering: .relaxed)) })
        let outcomes: [(String, @Sendable (UserAgentCounters) -> Int)] = [
            ("delivered", { $0.delivered.load(ordering: .relaxed) }),
            ("undecipherable", { $0.undecipherable.load(ordering: .relaxed) }),
            ("undelivered", { $0.undelivered.load(ordering: .relaxed) }),
            ("complained", { $0.complained.load(ordering: .relaxed) }),
            ("lost", { $0.lost.load(ordering: .relaxed) }),
            ("skipped", { $0.skipped.load(ordering: .relaxed) }),
        ]
        for (outcome, read) in outcomes {
            registry.counter(
                "tidecast_user_agent_messages_total", "What became of messages for user agents.",
                labels: [("outcome", outcome)], read: { Double(read(counters)) })
        }
    }
}
