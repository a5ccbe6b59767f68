import Model
import NodeCore
import PushMessages
import Synchronization

/// How push services have answered, by service and outcome.
final class PushCounters: Sendable {
    static let outcomes = [
        "accepted", "gone", "refused", "credentials", "throttled", "failed", "unsent", "expired",
    ]
    private struct Key: Hashable {
        var kind: Transport.Kind
        var outcome: String
    }
    private let counts = Mutex<[Key: Int]>([:])
    private struct AlarmKey: Hashable {
        var kind: Transport.Kind
        var alarm: PushAlarm
    }
    private let alarms = Mutex<[AlarmKey: Int]>([:])
    /// The newest of each loop.
    private let loads = Mutex<[Int: [Transport.Kind: PushLoad]]>([:])

    func note(_ outcome: PushOutcome, of kind: Transport.Kind, _ count: Int = 1) {
        let key = Key(kind: kind, outcome: outcome.word)
        counts.withLock { $0[key, default: 0] += count }
    }

    func count(_ kind: Transport.Kind, _ outcome: String) -> Int {
        counts.withLock { $0[Key(kind: kind, outcome: outcome)] ?? 0 }
    }

    func note(_ alarm: PushAlarm, of kind: Transport.Kind) {
        alarms.withLock { $0[AlarmKey(kind: kind, alarm: alarm), default: 0] += 1 }
    }

    func note(_ loads: [Transport.Kind: PushLoad], of loop: Int) {
        self.loads.withLock { $0[loop] = loads }
    }

    /// The sum of all loops.
    func load(_ kind: Transport.Kind) -> PushLoad {
        loads.withLock { loads in
            loads.values.reduce(into: PushLoad()) { sum, loads in
                guard let load = loads[kind] else { return }
                sum.waiting += load.waiting
                sum.underWay += load.underWay
                sum.paused += load.paused
            }
        }
    }

    func count(_ kind: Transport.Kind, _ alarm: PushAlarm) -> Int {
        alarms.withLock { $0[AlarmKey(kind: kind, alarm: alarm)] ?? 0 }
    }
}
