import DequeModule
import Model

/// TTL-0 messages. Each device gets one attempt. The outcome updates only the address.
///
/// The attempts are in memory alone: an owner that ends takes them with it. They are bounded in number, in
/// bytes and in time, and what is over a bound is left out. Each service has its own line, so that none holds
/// up the attempts at another one.
struct MomentaryPushes {
    struct Message {
        var position: Position
        /// The record that the message rests on, which is durable.
        var record: Sequence
        var event: [UInt8]
        var sent: WallTime
        var kinds: Transport.Kinds
        /// The devices for which the message was put into the log.
        var kept: DeviceSet
        /// No attempt begins after this.
        var until: MonotonicTime
    }
    /// A message, and how many attempts for it wait or are at the sender.
    private struct Kept {
        var message: Message
        var project: ProjectNumber
        var attempts: Int
    }
    /// Attempts that wait or are at the sender, and bytes of the messages that they are for.
    struct Load: Equatable {
        var attempts = 0
        var bytes = 0

        mutating func add(_ other: Load) {
            attempts += other.attempts
            bytes += other.bytes
        }
    }
    /// The devices of one service that wait for one message.
    struct Batch {
        var message: UInt64
        var devices: [UInt32]
        var next = 0
    }
    struct Line {
        enum State: Equatable {
            /// In `ready`.
            case ready
            /// Blocked at a slot limit. The next answer requeues this queue.
            case full
            /// The sender takes no attempt before that.
            case held(until: MonotonicTime)
        }
        var state = State.ready
        /// What the sender gave back, which comes first: as many as were at the sender.
        var returned: Deque<(message: UInt64, index: UInt32)> = []
        var batches: Deque<Batch> = []
        var isEmpty: Bool { returned.isEmpty && batches.isEmpty }
        /// The message of the next attempt. The line is not empty.
        var nextMessage: UInt64 { returned.first?.message ?? batches[0].message }

        mutating func popFirst() -> (message: UInt64, index: UInt32) {
            if let first = returned.popFirst() { return first }
            let batch = batches[0]
            batches[0].next += 1
            if batch.next + 1 == batch.devices.count { batches.removeFirst() }
            return (batch.message, batch.devices[batch.next])
        }

        /// Drops the attempts at the front that belong to the same message.
        mutating func dropFirst() -> Int {
            guard returned.popFirst() == nil else { return 1 }
            let batch = batches.removeFirst()
            return batch.devices.count - batch.next
        }
    }
    /// An attempt at the sender.
    struct Attempt {
        var sending: PushTable.Sending
        fileprivate var message: UInt64
    }
    /// The next attempt to begin.
    struct Next {
        var message: Message
        var index: UInt32
        var origin: PushOrigin
        fileprivate var number: UInt64
    }

    private var messages: [UInt64: Kept] = [:]
    private var lastMessage: UInt64 = 0
    var lines: [PushOrigin: Line] = [:]
    /// Services in the order of their turns; the line of some may not be ready any more.
    var ready: Deque<PushOrigin> = []
    /// The services in `ready`, each of which is there once.
    private var listed: Set<PushOrigin> = []
    private var slots = PushSlots()
    var load = Load()
    private var loads: [ProjectNumber: Load] = [:]
    /// Attempts at the sender.
    private(set) var attempts: [UInt64: Attempt] = [:]
    /// When a line may have been held long enough.
    private(set) var nextWake: MonotonicTime?

    /// One project may have three quarters of the room.
    /// - Parameter devices: the devices of each service, in one order.
    mutating func add(
        _ message: Message, of project: ProjectNumber,
        for devices: [(origin: PushOrigin, devices: [UInt32])], most: Load
    ) {
        func share(_ whole: Int) -> Int { (whole * 3 + 3) / 4 }
        let own = loads[project] ?? Load()
        let size = message.event.count
        guard load.bytes + size <= most.bytes, own.bytes + size <= share(most.bytes) else { return }
        var room = min(most.attempts - load.attempts, share(most.attempts) - own.attempts)
        lastMessage += 1
        var count = 0
        for (origin, all) in devices where room > 0 && !all.isEmpty {
            let some = Array(all.prefix(room))
            (room, count) = (room - some.count, count + some.count)
            lines[origin, default: Line()].batches.append(Batch(message: lastMessage, devices: some))
            if lines[origin]?.state == .ready { makeReady(origin) }
        }
        guard count > 0 else { return }
        messages[lastMessage] = Kept(message: message, project: project, attempts: count)
        change(project, attempts: count, bytes: size)
    }

    private mutating func change(_ project: ProjectNumber, attempts: Int, bytes: Int) {
        let change = Load(attempts: attempts, bytes: bytes)
        var own = loads[project] ?? Load()
        own.add(change)
        loads[project] = own == Load() ? nil : own
        load.add(change)
    }

    // MARK: Turns

    private mutating func makeReady(_ origin: PushOrigin) {
        lines[origin]?.state = .ready
        if listed.insert(origin).inserted { ready.append(origin) }
    }

    private mutating func popReady() -> PushOrigin? {
        let origin = ready.popFirst()
        if let origin { listed.remove(origin) }
        return origin
    }

    /// Whether `next` may have an attempt.
    func mayBegin(of slotsMax: Int) -> Bool { !ready.isEmpty && attempts.count < slotsMax }

    /// The next attempt: the caller begins it, or leaves it out.
    /// One service may have half of the slots and one project three quarters.
    mutating func next(of slotsMax: Int, _ now: MonotonicTime) -> Next? {
        while mayBegin(of: slotsMax), let origin = popReady() {
            guard lines[origin]?.state == .ready else { continue }
            dropOver(origin, now)
            guard lines[origin] != nil else {
                letIn(origin.project)
                continue
            }
            let room = slots.room(for: origin, of: slotsMax)
            guard case .free = room else {
                if case .projectFull = room { slots.turnAway(origin) }
                lines[origin]?.state = .full
                continue
            }
            guard let (number, index) = lines[origin]?.popFirst() else { continue }
            if lines[origin]?.isEmpty ?? true { lines[origin] = nil } else { makeReady(origin) }
            guard let message = messages[number]?.message else { continue }
            return Next(message: message, index: index, origin: origin, number: number)
        }
        return nil
    }

    /// Drops what no attempt may begin for any more.
    private mutating func dropOver(_ origin: PushOrigin, _ now: MonotonicTime) {
        guard var line = lines.removeValue(forKey: origin) else { return }
        while !line.isEmpty, (messages[line.nextMessage]?.message.until ?? .zero) <= now {
            let message = line.nextMessage
            release(message, line.dropFirst())
        }
        if !line.isEmpty { lines[origin] = line }
    }

    private mutating func release(_ message: UInt64, _ count: Int = 1) {
        guard var kept = messages[message] else { return }
        kept.attempts -= count
        change(
            kept.project, attempts: -count, bytes: kept.attempts == 0 ? -kept.message.event.count : 0)
        messages[message] = kept.attempts == 0 ? nil : kept
    }

    /// The attempt is not made: the device or its address is not there, or has the message.
    mutating func leaveOut(_ next: Next) {
        release(next.number)
        letIn(next.origin.project)
    }

    mutating func begin(_ next: Next, _ sending: PushTable.Sending, number: UInt64) {
        attempts[number] = Attempt(sending: sending, message: next.number)
        slots.add(sending.origin)
    }

    // MARK: Answers

    /// The sender has answered. `nil` if the number is of no attempt.
    mutating func ended(_ number: UInt64) -> Attempt? {
        guard let attempt = attempts.removeValue(forKey: number) else { return nil }
        let origin = attempt.sending.origin
        slots.remove(origin)
        if lines[origin]?.state == .full { makeReady(origin) }
        letIn(origin.project)
        return attempt
    }

    /// A slot of the project is free: the service whose turn it is looks for an attempt. If it has none, the
    /// slot goes on to the next service.
    private mutating func letIn(_ project: ProjectNumber) {
        while let other = slots.next(of: project) {
            guard lines[other]?.state == .full else { continue }
            return makeReady(other)
        }
    }

    /// The service was asked: what waits for the service may go on.
    mutating func wasMade(_ attempt: Attempt) {
        release(attempt.message)
        if case .held = lines[attempt.sending.origin]?.state { makeReady(attempt.sending.origin) }
    }

    /// The sender had no room for the attempt, or keeps the service's circuit open. The attempt waits, before
    /// all others of the service.
    mutating func giveBack(_ attempt: Attempt, until time: MonotonicTime) {
        let origin = attempt.sending.origin
        guard let message = messages[attempt.message]?.message else { return }
        // Lines wake in steps, so that a wake looks at all of them a few times a second at most.
        var until = PushTable.endOfTick(at: min(time, message.until))
        if case .held(let former)? = lines[origin]?.state { until = max(until, former) }
        lines[origin, default: Line()].state = .held(until: until)
        lines[origin]?.returned.append((attempt.message, attempt.sending.index))
        nextWake = min(nextWake ?? until, until)
    }

    /// Brings the lines back whose time has come.
    mutating func wake(_ now: MonotonicTime) {
        guard let earliest = nextWake, earliest <= now else { return }
        nextWake = nil
        var due: [PushOrigin] = []
        for (origin, line) in lines {
            guard case .held(let until) = line.state else { continue }
            if until <= now { due.append(origin) } else { nextWake = min(nextWake ?? until, until) }
        }
        for origin in due.sorted() { makeReady(origin) }
    }

    /// The first invariant that does not hold; `nil` if all do.
    func brokenInvariant(most: Load) -> String? {
        var counts: [UInt64: Int] = [:]
        for line in lines.values {
            for (message, _) in line.returned { counts[message, default: 0] += 1 }
            for batch in line.batches {
                counts[batch.message, default: 0] += batch.devices.count - batch.next
            }
        }
        for attempt in attempts.values { counts[attempt.message, default: 0] += 1 }
        if counts != messages.mapValues(\.attempts) { return "attempts of now or never are counted wrong" }
        if load.attempts != counts.values.reduce(0, +)
            || load.bytes != messages.values.reduce(0, { $0 + $1.message.event.count })
            || load != loads.values.reduce(into: Load(), { $0.add($1) })
        {
            return "the load of now or never is counted wrong"
        }
        if load.attempts > most.attempts || load.bytes > most.bytes {
            return "more waits for now or never than may"
        }
        let readied = Set(ready)
        for (origin, line) in lines {
            if line.isEmpty { return "an empty line waits for now or never" }
            switch line.state {
            case .ready:
                if !readied.contains(origin) { return "nobody looks at a line of now or never" }
            case .full:
                // A line of the project that is ready takes the slot, or passes the slot on.
                let isAnswered = attempts.values.contains { $0.sending.origin.project == origin.project }
                let isNext = lines.contains { $0.key.project == origin.project && $0.value.state == .ready }
                if !isAnswered, !isNext { return "no answer brings a line of now or never further" }
            case .held(let until):
                if (nextWake ?? .max) > until { return "nothing wakes a line of now or never" }
            }
        }
        return nil
    }
}
