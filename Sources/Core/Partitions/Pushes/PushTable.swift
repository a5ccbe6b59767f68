import DequeModule
import Model

/// The devices of one partition for which a message waits that a push service is to get, one message of a
/// device at a time.
///
/// None of this is in the journal: a new owner creates its own table from the log and the devices' addresses.
/// A device is in the table from the time when something may wait for it until the partition has looked and
/// found nothing. So nobody is forgotten.
struct PushTable {
    enum State: Equatable {
        /// In the queue; the partition looks at the device when there is room.
        case queued
        /// The partition looks at the device when this tick is over.
        case waiting(tick: UInt64)
        /// Waits until the service takes more messages.
        case parked
        /// Waits for a body that is being read.
        case reading
        /// A message is at the sender, under this number.
        case sending(number: UInt64)
    }
    /// A message at the sender.
    struct Sending: Equatable {
        var index: UInt32
        var position: Position
        var origin: PushOrigin
        /// The generation of the address to which the message goes.
        var generation: UInt64
        /// Whether the device acknowledges itself what goes to this address.
        var isKept = false
        var message: MessageID?
    }
    struct Device {
        var state: State
        /// How often the message at `tried` was tried in vain.
        var tries = 0
        var tried = Position.zero
        /// How many of these tries brought an answer that does not explain itself.
        var unexplained = 0
        /// The first message that is held for the device's stream, and since when.
        var held: (first: Position, since: MonotonicTime)?
    }
    /// Until when the circuit of an address's service is open for the device.
    struct Spare {
        var generation: UInt64
        var origin: PushOrigin
        var until: MonotonicTime
    }

    /// The devices that wait come in steps of this length.
    static let tick: TimeSpan = .milliseconds(250)
    private static func tick(at time: MonotonicTime) -> UInt64 { time.nanoseconds / tick.nanoseconds }
    static func endOfTick(at time: MonotonicTime) -> MonotonicTime {
        MonotonicTime(nanoseconds: (tick(at: time) + 1) * tick.nanoseconds)
    }

    var devices: [UInt32: Device] = [:]
    /// Also of devices for which nothing waits, or whose other address is used meanwhile.
    private var spares: [UInt32: Spare] = [:]
    /// At so many spares those are removed that are over.
    private var sparesMax = 64
    /// Devices in the order in which they came; some may not be `queued` any more.
    var queue: Deque<UInt32> = []
    /// Devices by the tick that they wait for; some may have stopped waiting for it.
    var later: [UInt64: [UInt32]] = [:]
    var earliest: UInt64?
    var sendings: [UInt64: Sending] = [:]
    var slots = PushSlots()
    /// Devices whose bodies are being read, with the service whose slot each one has.
    var readings: [UInt32: PushOrigin] = [:]
    var closed: [PushOrigin: ClosedOrigin] = [:]
    var momentary = MomentaryPushes()
    /// Devices of which a service has said that they are gone, while nothing confirms this.
    var doubts = NewestTable<UInt32, Doubt>()
    /// Devices with marks that came under other settings: they get one more try.
    var outdated: [UInt32] = []
    /// The marks of the day that the first question of the day found.
    var foundGone: (day: Day?, counts: [ProjectNumber: Int]) = (nil, [:])
    /// The brake of a partition that has no other one.
    var goneTally = GoneTally()
    /// What services took, and what they did not take.
    var accepted = RecentAttempts()
    var failed = RecentAttempts()
    var tallies = RecentTallies()
    #if DEBUG
        /// Which devices' addresses were gone, and when: for the planted bug `endReachable`.
        var plantedMarks: [(index: UInt32, time: WallTime)] = []
    #endif
    var countedEnds = CountedEnds()

    /// A service that takes no more messages for now, and the devices that wait for it. So a service that is
    /// away costs one look at a time, however many devices it has.
    struct ClosedOrigin {
        /// The partition looks at the next device when this tick is over.
        var tick: UInt64
        /// Devices whose message was not tried yet, which come first: the service may refuse some devices
        /// alone, again and again, and would seem to be away.
        var fresh: Deque<UInt32> = []
        /// Devices whose message was tried in vain.
        var tried: Deque<UInt32> = []
        /// How many devices may go to the sender though others are parked.
        var credit = 0
        var isEmpty: Bool { fresh.isEmpty && tried.isEmpty }
        var devices: [UInt32] { Array(fresh) + tried }

        mutating func popFirst() -> UInt32? { fresh.popFirst() ?? tried.popFirst() }
    }

    var count: Int { devices.count }
    /// Messages at the sender, and messages whose bodies are being read, without attempts for TTL-0 messages.
    var underWay: Int { sendings.count + readings.count }
    var hasQueued: Bool { !queue.isEmpty }
    func state(_ index: UInt32) -> State? { devices[index]?.state }
    func tries(_ index: UInt32, at position: Position) -> Int {
        devices[index].map { $0.tried == position ? $0.tries : 0 } ?? 0
    }
    func unexplained(_ index: UInt32, at position: Position) -> Int {
        tries(index, at: position) > 0 ? devices[index]?.unexplained ?? 0 : 0
    }
    var indices: [UInt32] { devices.keys.sorted() }

    /// Something may wait for the device. A device that is waiting for a time, a body or the sender goes on
    /// with that.
    mutating func want(_ index: UInt32) {
        guard devices[index] == nil else { return }
        devices[index] = Device(state: .queued)
        queue.append(index)
    }

    /// The device registered another address: clears any back-off of the previous address.
    mutating func wantAgain(_ index: UInt32) {
        switch devices[index]?.state {
        case nil: want(index)
        case .waiting, .parked:
            devices[index]?.tries = 0
            requeue(index)
        case .queued, .reading, .sending: devices[index]?.tries = 0
        }
    }

    /// The next device to look at.
    mutating func next() -> UInt32? {
        while let index = queue.popFirst() {
            if devices[index]?.state == .queued { return index }
        }
        return nil
    }

    mutating func wait(_ index: UInt32, until time: MonotonicTime) {
        let tick = PushTable.tick(at: time)
        guard devices[index] != nil else { return }
        set(.waiting(tick: tick), index)
        later[tick, default: []].append(index)
        earliest = min(earliest ?? tick, tick)
    }

    /// The service of the address has asked for time, or failed.
    mutating func spare(_ sending: Sending, for time: TimeSpan, now: MonotonicTime) {
        if spares.count >= sparesMax {
            spares = spares.filter { now < $0.value.until }
            sparesMax = max(64, spares.count * 2)
        }
        let until = now.advanced(by: time)
        spares[sending.index] = Spare(generation: sending.generation, origin: sending.origin, until: until)
        wait(sending.index, until: until)
    }

    /// Until when the circuit of the address's service is open; `nil` if it is closed.
    func spared(
        _ index: UInt32, generation: UInt64, at origin: PushOrigin, now: MonotonicTime
    ) -> MonotonicTime? {
        guard let spare = spares[index], spare.generation == generation, spare.origin == origin,
            now < spare.until
        else { return nil }
        return spare.until
    }

    /// The message was taken or given up: the device's next one is fresh.
    mutating func noteDone(_ index: UInt32) { devices[index]?.tries = 0 }

    mutating func noteFailure(_ index: UInt32, at position: Position, isUnexplained: Bool = false) {
        guard var device = devices[index] else { return }
        if device.tried != position || device.tries == 0 { (device.tries, device.unexplained) = (0, 0) }
        device.tries += 1
        if isUnexplained { device.unexplained += 1 }
        device.tried = position
        devices[index] = device
    }

    // MARK: Services that take no more

    /// Whether a device of the service may go to the sender now; if not, the device is parked.
    mutating func mayPass(_ index: UInt32, to origin: PushOrigin) -> Bool {
        guard let known = closed[origin] else { return true }
        if known.credit > 0 {
            closed[origin]?.credit -= 1
            return true
        }
        park(index, at: origin)
        return false
    }

    private mutating func park(_ index: UInt32, at origin: PushOrigin, first: Bool = false) {
        set(.parked, index)
        if devices[index]?.tries ?? 0 > 0 {
            closed[origin]?.tried.append(index)
        } else if first {
            closed[origin]?.fresh.prepend(index)
        } else {
            closed[origin]?.fresh.append(index)
        }
    }

    /// The service takes no more messages until `time`; the device is parked. `isBack`: the device comes back
    /// from the sender.
    mutating func close(
        _ origin: PushOrigin, until time: MonotonicTime, parking index: UInt32, isBack: Bool = false
    ) {
        let tick = PushTable.tick(at: time)
        let former = closed[origin]?.tick ?? 0
        closed[origin, default: ClosedOrigin(tick: tick)].tick = max(tick, former)
        closed[origin]?.credit = 0
        if devices[index] != nil { park(index, at: origin, first: isBack) }
        if closed[origin]?.isEmpty ?? true { closed[origin] = nil }
    }

    /// Parks the device for a moment if its service or its project has enough slots.
    mutating func mayTake(
        _ index: UInt32, to origin: PushOrigin, of slots: Int, now: MonotonicTime
    ) -> Bool {
        let room = self.slots.room(for: origin, of: slots)
        if case .free = room { return true }
        if case .projectFull = room { self.slots.turnAway(origin) }
        close(origin, until: now.advanced(by: PushTable.tick), parking: index)
        return false
    }

    /// A message of the project is answered: another service of the project, for which there was no slot,
    /// comes before the devices of the service that answered.
    private mutating func letIn(_ project: ProjectNumber) {
        while let origin = slots.next(of: project) {
            guard closed[origin] != nil else { continue }
            return release(origin, 1)
        }
    }

    /// The service has answered: two more of its devices may go to the sender for the one that went.
    mutating func release(_ origin: PushOrigin, _ count: Int = 2) {
        guard var known = closed[origin] else { return }
        var left = count
        while left > 0, let index = known.popFirst() {
            guard devices[index]?.state == .parked else { continue }
            left -= 1
            known.credit += 1
            requeue(index)
        }
        closed[origin] = known.isEmpty ? nil : known
    }

    /// These projects' settings have changed: forget what was learned about their services, and retry
    /// everything. `isMeant`: whether the device is one of these projects'.
    mutating func reopen(_ projects: Set<ProjectNumber>, isMeant: (UInt32) -> Bool) {
        closed = closed.filter { !projects.contains($0.key.project) }
        spares = spares.filter { !isMeant($0.key) }
        for index in indices where isMeant(index) { wantAgain(index) }
    }

    /// Lets one device of each service go whose tick is over. One follows each tick, so that nobody waits for
    /// an answer that does not come.
    private mutating func openClosed(_ tick: UInt64) {
        for origin in closed.keys.filter({ (closed[$0]?.tick ?? .max) < tick }).sorted() {
            closed[origin]?.tick = tick
            release(origin, 1)
        }
    }

    /// For how long the message has been held for the device's stream. Positions show how much later than the
    /// first held message another one came, so that a stream that acknowledges nothing holds up all messages
    /// once. A wall clock that leapt makes such a message the first.
    mutating func heldFor(_ index: UInt32, _ position: Position, now: MonotonicTime) -> TimeSpan {
        if let held = devices[index]?.held, position >= held.first {
            let (later, overflow) = (position.rawValue - held.first.rawValue)
                .multipliedReportingOverflow(by: 1000)
            let passed = now.since(held.since)
            if !overflow, .nanoseconds(later) <= passed { return passed - .nanoseconds(later) }
        }
        devices[index]?.held = (position, now)
        return .zero
    }

    /// The body of the device's message is being read. From now on the device has a slot of the service.
    mutating func setReading(_ index: UInt32, for origin: PushOrigin) {
        guard devices[index] != nil else { return }
        set(.reading, index)
        readings[index] = origin
        slots.add(origin)
    }

    private mutating func set(_ state: State, _ index: UInt32) {
        guard devices[index] != nil else { return }
        if let origin = readings.removeValue(forKey: index) { slots.remove(origin) }
        devices[index]?.state = state
    }

    mutating func setSending(_ sending: Sending, number: UInt64) {
        set(.sending(number: number), sending.index)
        sendings[number] = sending
        slots.add(sending.origin)
    }

    /// The device's body was read, and nothing is pushed now: its slot goes to another service.
    mutating func endReading(_ index: UInt32) {
        let origin = readings[index]
        requeue(index)
        if let origin { letIn(origin.project) }
    }

    /// The sender has answered. The device goes to the end of the queue, unless the caller lets it wait.
    /// `nil` if the number is not of a message that is at the sender.
    mutating func ended(_ number: UInt64) -> Sending? {
        guard let sending = sendings.removeValue(forKey: number) else { return nil }
        slots.remove(sending.origin)
        letIn(sending.origin.project)
        requeue(sending.index)
        return sending
    }

    mutating func requeue(_ index: UInt32) {
        guard devices[index] != nil else { return }
        set(.queued, index)
        queue.append(index)
    }

    /// Nothing waits for the device.
    mutating func forget(_ index: UInt32) {
        set(.queued, index)
        devices[index] = nil
    }

    /// Puts the devices into the queue whose ticks are over.
    mutating func wake(_ now: MonotonicTime) {
        let tick = PushTable.tick(at: now)
        if !closed.isEmpty { openClosed(tick) }
        guard let earliest, earliest < tick else { return }
        for due in later.keys.filter({ $0 < tick }).sorted() {
            for index in later.removeValue(forKey: due) ?? []
            where devices[index]?.state == .waiting(tick: due) { requeue(index) }
        }
        self.earliest = later.keys.min()
    }

    /// The earliest time at which `wake` may have something to do.
    var nextWake: MonotonicTime? {
        let next = closed.values.reduce(earliest ?? .max) { min($0, $1.tick) }
        return next == .max ? nil : MonotonicTime(nanoseconds: (next + 1) * PushTable.tick.nanoseconds)
    }
}
