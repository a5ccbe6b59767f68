import HTTPMessages
import Listener
import Synchronization

/// Bytes of one kind that all connections of a server may hold together, in addition to what each connection
/// may hold by itself.
///
/// The connections of one address may hold a third of what is free. So one address alone holds at most a
/// quarter of the budget, and four addresses together hold four sevenths. No number of addresses takes all of
/// the budget (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches",
/// 1998).
final class SharedBudget: Sendable {
    private let bytesMax: Int
    private let taken = Atomic<Int>(0)
    /// Bytes by the address's key. An address that holds none has no entry.
    private let byAddress = Mutex<[UInt64: Int]>([:])

    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Bytes that are taken.
    var bytes: Int { taken.load(ordering: .relaxed) }

    /// `address`: the key of the client's address; `nil` if the address has no bound.
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

/// Bytes of one kind in a single connection: bodies that are not whole, or answers that are not sent. The
/// first bytes are free, so that a usual request does not touch the shared budget. The rest comes from the
/// shared budget in steps.
struct ByteBudget {
    static let freeBytes = 16 << 10
    static let stepBytes = 64 << 10
    /// The same for a connection that has one request at a time.
    static let freeBytesOfOne = 4 << 10
    static let stepBytesOfOne = 16 << 10

    private let shared: SharedBudget
    private let address: UInt64?
    private let bytesMax: Int
    private(set) var held = 0
    private let free: Int
    private let step: Int
    private var granted: Int

    init(
        _ shared: SharedBudget, for address: UInt64? = nil, bytesMax: Int, free: Int = freeBytes,
        step: Int = stepBytes
    ) {
        self.shared = shared
        self.address = address
        self.bytesMax = bytesMax
        self.free = min(free, bytesMax)
        self.step = step
        granted = self.free
    }

    /// Returns false, and takes nothing, if the bytes are too many for the connection or for all together.
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
        let steps = (wanted - granted + step - 1) / step
        let more = min(steps * step, bytesMax - granted)
        guard shared.take(more, for: address) else { return false }
        granted += more
        held = wanted
        return true
    }

    /// Counts the bytes even if they are past the bounds.
    mutating func add(_ bytes: Int) { held += bytes }

    mutating func give(_ bytes: Int) {
        held -= bytes
        if granted > free, held <= free { giveBack() }
    }

    /// The connection is gone, and with it all bytes that it held.
    mutating func end() {
        held = 0
        giveBack()
    }

    private mutating func giveBack() {
        shared.give(granted - free, for: address)
        granted = free
    }
}

/// Bytes that a connection has written and its client has not read.
struct PendingBytes {
    private let shared: SharedBudget
    private let address: UInt64?
    private var held = 0

    init(_ shared: SharedBudget, for address: UInt64?) { (self.shared, self.address) = (shared, address) }

    /// So many more bytes wait for the kernel. Returns false, and counts nothing, if they are too many.
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

/// The budgets that all connections of a server share.
final class EdgeBudgets: Sendable {
    /// For bodies that are not whole.
    let bodies: SharedBudget
    /// For answers that are not sent.
    let answers: SharedBudget
    /// For event streams that are not read.
    let streams: SharedBudget
    /// For bytes that connections have written and the kernel has not taken.
    let pending: SharedBudget
    private let connections: ConnectionGate.Bounds

    /// Bounds the bytes of those addresses whose connections are bounded too.
    init(_ configuration: EdgeConfiguration, _ connections: ConnectionGate.Bounds = .init()) {
        self.connections = connections
        bodies = SharedBudget(bytesMax: configuration.bodyBytesOfAllMax)
        answers = SharedBudget(bytesMax: configuration.answerBytesOfAllMax)
        streams = SharedBudget(bytesMax: configuration.streamBytesOfAllMax)
        pending = SharedBudget(bytesMax: configuration.pendingBytesOfAllMax)
    }

    func key(of client: ClientAddress?) -> UInt64? { connections.key(of: client) }
}
