import HTTPMessages
import Listener
import Synchronization

/// Bytes of one kind that all connections of a server may hold together, beyond what each of them has free.
///
/// Those of one address may hold a third of what nobody holds: one alone a quarter of all, four together four
/// sevenths, and however many there are, they never take all of it (Choudhury and Hahne, "Dynamic
/// queue length thresholds for shared-memory packet switches", 1998).
final class SharedBudget: Sendable {
    private let bytesMax: Int
    private let taken = Atomic<Int>(0)
    /// By the address's key; who holds none is not in it.
    private let byAddress = Mutex<[UInt64: Int]>([:])

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Bytes that are taken.
    var bytes: Int { taken.load(ordering: .relaxed) }

    /// `address`: the key of the client's, where it is one that is counted.
    func take(_ bytes: Int, for address: UInt64?) -> Bool {
        let (_, now) = taken.add(bytes, ordering: .relaxed)
        if now <= bytesMax, mayHold(bytes, address, free: bytesMax - now) { return true }
        taken.subtract(bytes, ordering: .relaxed)
        return false
    }

    private func mayHold(_ bytes: Int, _ address: UInt64?, free: Int) -> Bool {
        guard let address else { return true }
        return byAddress.withLock { held in
            let now = (held[address] ?? 0) + bytes
            if now > free / 3 { return false }
            held[address] = now
            return true
        }
    }

    func give(_ bytes: Int, for address: UInt64?) {
        taken.subtract(bytes, ordering: .relaxed)
        guard let address, bytes > 0 else { return }
        byAddress.withLock { held in
            let left = (held[address] ?? 0) - bytes
            held[address] = left > 0 ? left : nil
        }
    }
}

/// Bytes of one kind that one connection holds: of bodies that are not whole, or of answers that are not
/// sent. A few are free, so that a usual request asks nobody; what is more is taken from all connections'
/// budget, in steps.
struct ByteBudget {
    static let freeBytes = 16 << 10
    static let stepBytes = 64 << 10

    private let shared: SharedBudget
    private let address: UInt64?
    private let bytesMax: Int
    private(set) var held = 0
    private let free: Int
    private var granted: Int

    init(_ shared: SharedBudget, for address: UInt64? = nil, bytesMax: Int) {
        self.shared = shared
        self.address = address
        self.bytesMax = bytesMax
        free = min(ByteBudget.freeBytes, bytesMax)
        granted = free
    }

    /// False where they would be too many, for the connection or for all: then nothing is taken.
    mutating func take(_ bytes: Int) -> Bool {
        guard held + bytes > granted else {
            held += bytes
            return true
        }
        return takeMore(bytes)
    }

    private mutating func takeMore(_ bytes: Int) -> Bool {
        let wanted = held + bytes
        guard wanted <= bytesMax else { return false }
        let steps = (wanted - granted + ByteBudget.stepBytes - 1) / ByteBudget.stepBytes
        let more = min(steps * ByteBudget.stepBytes, bytesMax - granted)
        guard shared.take(more, for: address) else { return false }
        granted += more
        held = wanted
        return true
    }

    /// Counts what is held whatever the bounds say.
    mutating func add(_ bytes: Int) { held += bytes }

    mutating func give(_ bytes: Int) {
        held -= bytes
        if granted > free, held <= free { giveBack() }
    }

    /// The connection is gone, and all that it held.
    mutating func end() {
        held = 0
        giveBack()
    }

    private mutating func giveBack() {
        shared.give(granted - free, for: address)
        granted = free
    }
}

/// What one connection has written that its client does not read.
struct PendingBytes {
    private let shared: SharedBudget
    private let address: UInt64?
    private var held = 0

    init(_ shared: SharedBudget, for address: UInt64?) { (self.shared, self.address) = (shared, address) }

    /// So many bytes more wait for the kernel. False where they are too many: then nothing is counted.
    mutating func add(_ bytes: Int) -> Bool {
        guard shared.take(bytes, for: address) else { return false }
        held += bytes
        return true
    }

    /// The kernel has taken what waited, or the connection is gone.
    mutating func clear() {
        guard held > 0 else { return }
        shared.give(held, for: address)
        held = 0
    }
}

/// What all connections of a server hold together.
final class EdgeBudgets: Sendable {
    /// Of bodies that are not whole.
    let bodies: SharedBudget
    /// Of answers that are not sent.
    let answers: SharedBudget
    /// Of event streams that are not read.
    let streams: SharedBudget
    /// Of what is written to connections and not yet handed to the kernel, where that waits.
    let pending: SharedBudget
    private let connections: ConnectionGate.Bounds

    /// An address is counted where its connections are.
    init(_ configuration: EdgeConfiguration, _ connections: ConnectionGate.Bounds = .init()) {
        self.connections = connections
        bodies = SharedBudget(bytesMax: configuration.bodyBytesOfAllMax)
        answers = SharedBudget(bytesMax: configuration.answerBytesOfAllMax)
        streams = SharedBudget(bytesMax: configuration.streamBytesOfAllMax)
        pending = SharedBudget(bytesMax: configuration.pendingBytesOfAllMax)
    }

    func key(of client: ClientAddress?) -> UInt64? { connections.key(of: client) }
}
