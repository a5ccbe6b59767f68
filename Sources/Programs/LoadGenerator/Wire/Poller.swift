import CEpoll
import Glibc

/// One thread's connections on one epoll. Each turn reads the bytes that have come, lets each connection
/// answer, and writes each touched connection once.
public final class Poller {
    private let epoll: Int32
    private var connections: [LoadConnection?] = []
    private var freeSlots: [Int] = []
    private var touched: [LoadConnection] = []
    private var events = [epoll_event](repeating: epoll_event(), count: 512)
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
    /// When the turn's newest bytes were read.
    public private(set) var now = MonotonicClock.now()

    public init() throws {
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else { throw LoadError("epoll_create1: \(String(cString: strerror(errno)))") }
    }

    deinit {
        for connection in connections { connection?.hangUp() }
        close(epoll)
        buffer.deallocate()
    }

    func add(_ connection: LoadConnection) {
        let slot = freeSlots.popLast() ?? connections.count
        if slot == connections.count {
            connections.append(connection)
        } else {
            connections[slot] = connection
        }
        connection.index = slot
        control(connection, EPOLL_CTL_ADD, writes: false)
        touch(connection)
    }

    func remove(_ connection: LoadConnection) {
        guard connection.index >= 0 else { return }
        connections[connection.index] = nil
        freeSlots.append(connection.index)
        connection.index = -1
    }

    /// Marks a connection that has something to write at the end of the turn.
    func touch(_ connection: LoadConnection) {
        guard !connection.isTouched else { return }
        connection.isTouched = true
        touched.append(connection)
    }

    private func control(_ connection: LoadConnection, _ operation: Int32, writes: Bool) {
        var event = epoll_event()
        event.events = EPOLLIN.rawValue | EPOLLRDHUP.rawValue | (writes ? EPOLLOUT.rawValue : 0)
        event.data.u64 = UInt64(connection.index)
        epoll_ctl(epoll, operation, connection.descriptor, &event)
    }

    func watchWrites(_ connection: LoadConnection, _ writes: Bool) {
        guard connection.index >= 0 else { return }
        control(connection, EPOLL_CTL_MOD, writes: writes)
    }

    /// Writes the waiting bytes, then handles events for at most the given time.
    public func turn(milliseconds: Int32) {
        flush()
        let count = epoll_wait(epoll, &events, Int32(events.count), milliseconds)
        now = MonotonicClock.now()
        guard count > 0 else { return }
        for index in 0..<Int(count) {
            let event = events[index]
            guard let connection = connections[Int(event.data.u64)] else { continue }
            if event.events & EPOLLOUT.rawValue != 0 { touch(connection) }
            if event.events & ~EPOLLOUT.rawValue != 0 { connection.read(into: buffer) }
            if index & 15 == 15 { now = MonotonicClock.now() }
        }
        now = MonotonicClock.now()
        flush()
    }

    private func flush() {
        while !touched.isEmpty {
            var batch: [LoadConnection] = []
            swap(&batch, &touched)
            for connection in batch {
                connection.isTouched = false
                connection.write()
            }
        }
    }

    /// Runs turns until the condition holds; false if the time ran out before that.
    @discardableResult
    public func run(seconds: Double, until isDone: () -> Bool) -> Bool {
        let end = MonotonicClock.now() + UInt64(seconds * 1e9)
        while !isDone() {
            if MonotonicClock.now() >= end { return false }
            turn(milliseconds: 5)
        }
        return true
    }
}
