import Journal
import Model
import NodeCore
import Partitions
import Quotas

// The named bounds of what may wait, and of records and frames, checked as these pass.

extension ClusterSimulation {
    /// What one event may add past a bound that a machine checks before the event: one body with its fields.
    private static let eventBytesMax = 16 << 10

    private var entryBytesMax: Int { options.partition.entryBytesMax + ClusterSimulation.eventBytesMax }
    private var recordBytesMax: Int { options.partition.recordBytesMax + ClusterSimulation.eventBytesMax }

    /// Bytes of one message between processes, at most: offered entries, a frame to a gateway for records
    /// that became durable at once, bodies that were read at once, or all that waits for one device.
    private var messageBytesMax: Int {
        let partition = options.partition
        let told = recordBytesMax * partition.recordsInFlightMax
        let waiting = Int(partition.delivery.waitingHardMax) * (options.bodyBytesMax + 256)
        return max(partition.offerBytesMax, entryBytesMax, told, partition.bodyBytesAtOnce, waiting)
            + ClusterSimulation.eventBytesMax
    }

    /// A partition must close a full record before it adds anything.
    func checkBounds(of rows: [Row]) {
        for row in rows where row.payload.count > recordBytesMax {
            violate(
                "bounds",
                "partition \(row.partition.rawValue) makes a record of \(row.payload.count) bytes,"
                    + " and \(options.partition.recordBytesMax) is its bound")
        }
    }

    /// A partition must refuse a send past the bound of unfinished fan-outs (rule: bounded-fanouts).
    func checkFanouts(of rows: [Row], in process: SimulatedProcess) {
        let bound = Int(options.limits.fanouts)
        guard bound < QuotaLimits().fanouts else { return }
        for id in Set(rows.map(\.partition)).sorted() {
            guard let partition = process.loop(of: id).core.partitions[id] else { continue }
            for project in projects where partition.unfinished(project).waiting > bound {
                violate(
                    "bounded-fanouts",
                    "partition \(id.rawValue) has \(partition.unfinished(project).waiting) unfinished fan-outs"
                )
            }
        }
    }

    /// At rest no fan-out is unfinished.
    func fanoutsLeft() -> [Violation] {
        slots.compactMap(\.process).filter(\.isRunning).flatMap(\.partitions).flatMap { partition in
            projects.filter { partition.unfinished($0) != (0, 0) }.map {
                Violation(
                    "bounded-fanouts",
                    "partition \(partition.id.rawValue) ends with"
                        + " \(partition.unfinished($0).counted) fan-outs")
            }
        }
    }

    /// Checks a frame of `bytes`, and all that waits for its process after this frame.
    func checkBounds(of backlog: Backlog, after bytes: Int) {
        let frame = options.loop.frameBytesTarget + messageBytesMax
        if bytes > frame {
            violate("bounds", "a frame has \(bytes) bytes, and \(options.loop.frameBytesTarget) is its bound")
        }
        if backlog.entries > backlog.bound.entries || backlog.bytes > backlog.bound.bytes + frame {
            violate(
                "bounds",
                "\(backlog.entries) frames of \(backlog.bytes) bytes wait for a process; the bound is"
                    + " \(backlog.bound.entries) of \(backlog.bound.bytes)")
        }
    }
}

/// Counts messages in an inbox that a loop may refuse or leave out. Each giver looks at the bound before it
/// hands messages over, so each giver passes the bound by at most one hand-over.
struct InboxMeter {
    /// The source of messages: another loop of the process, or a frame of another process.
    enum Giver: Hashable {
        case loop(Int)
        case frame
    }
    private var waiting = 0
    private var largest: [Giver: Int] = [:]

    /// Adds messages. Returns a sentence if too many wait, otherwise `nil`.
    mutating func add(_ messages: [LoopMessage], from giver: Giver, bound: Int) -> String? {
        let count = giver == .frame ? messages.count : messages.count { $0.mayBeLeftOut }
        guard count > 0 else { return nil }
        waiting += count
        largest[giver] = max(largest[giver] ?? 0, count)
        let slack = largest.values.reduce(0, +)
        guard waiting > bound + slack else { return nil }
        return "\(waiting) messages that may be left out wait for it; the bound is \(bound), and at the most"
            + " \(slack) were handed over at once"
    }

    mutating func clear() { self = InboxMeter() }
}

extension LoopMessage {
    fileprivate var mayBeLeftOut: Bool {
        if case .request = self { true } else { isRepeated }
    }
}
