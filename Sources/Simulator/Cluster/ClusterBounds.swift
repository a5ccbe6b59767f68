import Journal
import Model
import NodeCore
import Partitions
import Routing

// What may wait, and how long a record or a frame may be: the named bounds, looked at where things pass.

extension ClusterSimulation {
    /// What one event adds past a bound that is asked before it: one body and what stands around it.
    private static let eventBytesMax = 16 << 10

    private var entryBytesMax: Int { options.partition.entryBytesMax + ClusterSimulation.eventBytesMax }
    private var recordBytesMax: Int { options.partition.recordBytesMax + ClusterSimulation.eventBytesMax }

    /// What one message between processes has at the most: entries that are offered, what records that became
    /// durable at once tell a gateway, bodies that were read at once, or all that waits for one device.
    private var messageBytesMax: Int {
        let partition = options.partition
        let told = recordBytesMax * partition.recordsInFlightMax
        let waiting = Int(partition.delivery.waitingHardMax) * (options.bodyBytesMax + 256)
        return max(partition.offerBytesMax, entryBytesMax, told, partition.bodyBytesAtOnce, waiting)
            + ClusterSimulation.eventBytesMax
    }

    /// A record is closed before anything is added to what is full.
    func checkBounds(of rows: [Row]) {
        for row in rows where row.payload.count > recordBytesMax {
            violate(
                "bounds",
                "partition \(row.partition.rawValue) makes a record of \(row.payload.count) bytes,"
                    + " and \(options.partition.recordBytesMax) is its bound")
        }
    }

    /// What waits for a process after a frame of so many bytes, and the frame itself.
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

/// What waits in an inbox of that which may be refused or left out. Whoever hands over looks before it does,
/// so the bound is passed by no more than one hand-over of each.
struct InboxMeter {
    /// Where something comes from: another loop of the process, or a frame of another one.
    enum Giver: Hashable {
        case loop(Int)
        case frame
    }
    private var waiting = 0
    private var largest: [Giver: Int] = [:]

    /// What is wrong with so many more, if something is.
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
