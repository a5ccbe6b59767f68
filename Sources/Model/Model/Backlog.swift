/// How far a receiver is behind with what was handed over to it.
public enum Pressure: UInt8, Comparable, Sendable {
    /// Everything may be handed over.
    case none
    /// A sixteenth of what may wait does: streams that read the log wait, so that requests and answers do not
    /// wait behind them for long.
    case filling
    /// Half of what may wait does: nothing is begun any more that can also be refused.
    case behind
    /// Nothing more may wait: what a protocol repeats is left out, and a connection is cut off.
    case full

    public static func < (left: Pressure, right: Pressure) -> Bool { left.rawValue < right.rawValue }
}

/// What a receiver was handed and has not taken yet, and how much of it there may be.
public struct Backlog: Sendable {
    public struct Bound: Hashable, Sendable {
        public var entries: Int
        public var bytes: Int
        public init(entries: Int, bytes: Int) {
            self.entries = entries
            self.bytes = bytes
        }
    }

    public let bound: Bound
    public private(set) var entries = 0
    public private(set) var bytes = 0

    public init(_ bound: Bound) { self.bound = bound }

    public var pressure: Pressure {
        if entries >= bound.entries || bytes >= bound.bytes { return .full }
        if holds(oneOf: 2) { return .behind }
        return holds(oneOf: 16) ? .filling : .none
    }

    private func holds(oneOf parts: Int) -> Bool {
        entries >= max(1, bound.entries / parts) || bytes >= max(1, bound.bytes / parts)
    }

    /// Takes one entry more, unless the backlog is full. False if it was full.
    public mutating func take(bytes: Int) -> Bool {
        guard pressure < .full else { return false }
        add(bytes: bytes)
        return true
    }

    public mutating func add(entries: Int = 1, bytes: Int) {
        self.entries += entries
        self.bytes += bytes
    }

    public mutating func remove(entries: Int = 1, bytes: Int) {
        self.entries -= entries
        self.bytes -= bytes
    }

    public mutating func clear() { (entries, bytes) = (0, 0) }
}
