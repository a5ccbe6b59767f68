import Model

/// What a partition's records add up to. `apply` is the fold; nothing else changes the state.
///
/// The state has two tables. *Devices*: the devices that were registered here, the topics of each, and the
/// delivery log that they share; this table decides which device is subscribed to what. *Topics*: the topics
/// whose names hash here, each with its members from all partitions, derived from what those partitions say
/// through outboxes.
struct PartitionState: ~Copyable {
    let id: PartitionID
    let history: History
    let partitionCount: Int
    let limits: DeliveryLimits
    /// The newest record that was folded in.
    var applied: Sequence = .zero
    var epoch = Epoch(0)
    /// How often a database may have lost its end (rule: lost-ends-raise-the-generation), and the end of each
    /// earlier generation.
    var generation: UInt64 = 0
    var formerGenerations: [FormerGeneration] = []
    /// The generation up to which other partitions were compared with this partition.
    var comparedGeneration: UInt64 = 0
    /// The days that facts have shown.
    var days = ObservedDays()

    let names: TopicNames
    var topics = TopicTable()
    var devices = DeviceTable()
    var held = HeldTopics()
    var log = DeliveryLog()
    /// Devices that lost messages to a bound, or may have, and have not acknowledged the position of the
    /// notice.
    var overflowed: [UInt32: Loss] = [:]
    /// The push services that reach a device, by index; in the order of their kinds.
    var transports = AddressTable()
    /// Whether the log keeps what a message takes out until its record is durable. False during `replay`.
    var keepsRemovals = false

    var outboxes = PartitionMap<Outbox>()
    var marks = PartitionMap<InboxMark>()
    var windows = RecentMap<UInt64, DeduplicationWindow>()
    var conditions: [ConditionTicket: PendingCondition] = [:]
    var fanouts = Fanouts()
    /// The writer of the snapshot under way. Before an object changes, the state gives the writer its old
    /// form.
    private(set) var writer: SnapshotWriter?

    init(
        id: PartitionID, history: History, partitionCount: Int, limits: DeliveryLimits = DeliveryLimits(),
        names: TopicNames
    ) {
        self.limits = limits
        self.id = id
        self.history = history
        self.partitionCount = partitionCount
        self.names = names
    }

    /// The names outlive a partition that is thrown away, so the partition releases the names that it used.
    deinit {
        writer?.releaseNames(names)
        for number in topics.numbers { names.release(number) }
        devices.forEach { _, page, slot in
            let list = page.topics[slot]
            for at in 0..<list.count { names.release(list[at].topic) }
            return true
        }
    }

    /// A loss of a device's messages to a bound, or a possible loss.
    struct Loss {
        /// The position at which the device is notified.
        var told: Position
        /// The record that made the loss. The device must not be notified before this record is durable.
        var record: Sequence
    }

    /// The position of a fold in its record: `ordinal` numbers the event bodies in the order of the facts.
    struct Cursor {
        var record: Sequence
        var ordinal: UInt32 = 0
        /// Partitions for which this record made outbox entries.
        var touched = PartitionSet()
        /// Bytes of the longest outbox entry that this record made.
        var entryBytes = 0
        /// This record's messages for devices of this partition.
        var deliveries: [Delivery] = []
    }

    /// A message for devices of this partition, to be pushed when its record is durable.
    struct Delivery {
        var position: Position
        var event: [UInt8]
        /// The devices whose streams get the message if they are live.
        var targets: DeviceSet
        /// The targets that lost older messages by this message; they are notified at `position - 1`.
        var overflowed: DeviceSet
        var momentary: Momentary?
    }
    /// A message with a time to live of 0 at some push services.
    struct Momentary {
        var kinds: Transport.Kinds
        var sent: WallTime
        /// The devices for which the message waits in the log all the same.
        var kept: DeviceSet
        /// The devices with an address of these kinds, whether or not the message is still for streams.
        var targets: DeviceSet
    }

    struct FormerGeneration: Hashable {
        static let countMax = 16
        var number: UInt64
        var ended: Position
        /// The record with which the generation `next` began.
        var before: Sequence
        var next: UInt64
    }

    private mutating func startGeneration(_ number: UInt64, leavingOut leftOut: UInt32, record: Sequence) {
        guard number > generation else { return }
        formerGenerations.append(
            FormerGeneration(number: generation, ended: log.last, before: record, next: number))
        if formerGenerations.count > FormerGeneration.countMax { formerGenerations.removeFirst() }
        generation = number
        let next = UInt64(devices.next) + UInt64(leftOut)
        devices.skip(to: UInt32(min(next, UInt64(DeviceIndex.limit))))
    }

    /// Of what this partition had done up to `number`, as another partition knew it in `generation`, the part
    /// up to the returned number is still there. What came behind was lost since.
    func kept(of number: Sequence, in generation: UInt64) -> Sequence {
        formerGenerations.filter { $0.next > generation }.reduce(number) { min($0, $1.before.former) }
    }

    // MARK: The snapshot that is being made

    /// Begins a snapshot of the state as it is.
    mutating func beginSnapshot() {
        writer = SnapshotWriter(self)
        log.holdKeys()
    }

    /// Makes about `bytes` more bytes of the snapshot.
    mutating func continueSnapshot(_ bytes: Int) {
        guard let writer else { return }
        writer.advance(bytes, self)
        if writer.isWritten { log.letKeysGo() }
        endSnapshot()
    }

    /// Drops the writer when nothing of the snapshot is left to be made or taken.
    mutating func endSnapshot() {
        if let writer, writer.isDone, writer.waiting == 0 { self.writer = nil }
    }

    mutating func apply(_ fact: Fact, _ cursor: inout Cursor) {
        switch fact {
        case .barrier(_, let epoch, _):
            self.epoch = max(self.epoch, epoch)
        case .register(let index, let project, let nonce, let secret, let day):
            days.observe(day)
            devices.add(index: index, project: project, nonce: nonce, secret: secret, seen: day)
        case .end(let index):
            end(index, &cursor)
        case .subscribe(let project, let topic, let day, let indices):
            subscribe(indices, to: topic, in: project, on: day, &cursor)
        case .unsubscribe(let project, let topic, let indices):
            unsubscribe(indices, from: topic, in: project, &cursor)
        case .accept(let key, let project, let topic, let message):
            insert(key)
            fanOut(message, to: topic, in: project, &cursor)
        case .acceptCondition(let key, let project, let condition, let message):
            insert(key)
            let ticket = ConditionTicket(record: cursor.record, ordinal: cursor.ordinal)
            cursor.ordinal += 1
            conditions[ticket] = PendingCondition(project: project, condition: condition, message: message)
            fanouts.begin(project, message.id, parts: 1)
        case .resolve(let ticket, let targets, let undecided):
            resolve(ticket, to: targets, undecided: undecided, &cursor)
        case .acceptDirect(let key, let project, let index, let message, let decision):
            insert(key)
            deliver(message, of: project, to: DeviceSet(index), by: decision, &cursor)
        case .receive(let from, let history, let entry, let decisions):
            receive(
                entry, from: from, history: history, decisions: decisions, behind: 0, isLast: true, &cursor)
        case .receivePart(let from, let history, let entry, let decisions, let behind, let isLast):
            receive(
                entry, from: from, history: history, decisions: decisions, behind: behind, isLast: isLast,
                &cursor)
        case .acknowledge(let marks):
            for mark in marks { acknowledge(mark) }
        case .read(let cursors):
            for cursor in cursors { read(cursor) }
        case .pass(let cursors):
            for passed in cursors { pass(passed, cursor.record) }
        case .gone(let positions):
            for position in positions { lose(position, cursor.record) }
        case .expire(let now):
            log.losing(.expired) { $0.expire(now, transports, telling: departure(&devices)) }
        case .seen(let day, let seen):
            days.observe(day)
            seen.forEach { note($0, seenOn: day) }
        case .evict(let session):
            windows[session] = nil
        case .generation(let number, let leftOut):
            startGeneration(number, leavingOut: leftOut, record: cursor.record)
        case .rebase(let from, let history, let generation, let number):
            var mark = mark(of: from, history)
            (mark.history, mark.generation, mark.number) = (history, generation, number)
            // The entry's number may come again: what is applied stays, and the whole entry is applied again.
            if let part = mark.part { (mark.fingerprint, mark.part) = (part.fingerprint, nil) }
            marks[from] = mark
        case .compared(let generation): comparedGeneration = max(comparedGeneration, generation)
        case .setTransport(let index, let transport, let time):
            set(transport, of: index, at: time, record: cursor.record)
        case .endTransport(let index, let kind, let generation):
            endTransport(kind, of: index, generation: generation)
        case .markTransport(let index, let kind, let generation, let mark):
            set(mark, kind, of: index, generation: generation)
        case .pushedOne(let position, let index):
            log.drop(DeviceSet(index), at: position, departure(&devices))
        case .pushedKept(let position, let index, let kind):
            notePushed(kind, of: index, upTo: position)
        case .repair(let to, let slice):
            repair(to: to, slice, &cursor)
        }
    }

    private mutating func resolve(
        _ ticket: ConditionTicket, to targets: [PartitionTargets], undecided: [PartitionID],
        _ cursor: inout Cursor
    ) {
        guard let pending = conditions[ticket] else { return }
        if undecided.isEmpty {
            conditions[ticket] = nil
        } else {
            conditions[ticket]?.undecided = undecided
        }
        var parts = 0
        for part in targets where !part.devices.isEmpty {
            addToOutbox(
                .message(project: pending.project, pending.message, part.devices), to: part.partition,
                &cursor)
            parts += 1
        }
        fanouts.resolve(pending.project, pending.message.id, parts: parts, isLast: undecided.isEmpty)
    }

    mutating func note(_ index: UInt32, seenOn day: Day) {
        guard let (page, slot) = devices.find(index) else { return }
        writer?.touch(daysOf: index, page)
        page.seen[slot] = max(page.seen[slot], day.rawValue)
    }

    func mark(of partition: PartitionID, _ history: History) -> InboxMark {
        marks[partition] ?? InboxMark(history: history, number: .zero, fingerprint: 0)
    }

    private mutating func insert(_ key: RequestKey?) {
        guard let key else { return }
        windows[key.session, default: DeduplicationWindow()].insert(key.number)
    }

    // MARK: Outboxes

    mutating func addToOutbox(_ item: OutboxItem, to partition: PartitionID, _ cursor: inout Cursor) {
        let bytes = outboxes[partition, default: Outbox()].append(item, record: cursor.record)
        cursor.entryBytes = max(cursor.entryBytes, bytes)
        cursor.touched.insert(partition)
    }

    private mutating func acknowledge(_ mark: OutboxMark) {
        guard var outbox = outboxes[mark.partition] else { return }
        outboxes[mark.partition] = nil
        outbox.acknowledge(upTo: mark.number) { entry in
            for index in entry.items.indices {
                guard let (project, message) = entry.items[index].message else { continue }
                fanouts.taken(project, message)
            }
        }
        outboxes[mark.partition] = outbox
    }

    private mutating func receive(
        _ entry: OutboxEntry, from sender: PartitionID, history: History, decisions: [DeliveryDecision],
        behind: UInt32, isLast: Bool, _ cursor: inout Cursor
    ) {
        var mark = mark(of: sender, history)
        precondition(mark.isNext(entry, behind: behind), "only the entry that follows the mark is applied")
        mark.history = history
        var fingerprint = mark.part?.fingerprint ?? mark.fingerprint
        var next = 0
        for item in entry.items {
            switch item {
            case .message(let project, let message, let targets):
                deliver(message, of: project, to: targets, by: decisions[next], &cursor)
                next += 1
            case .join(let project, let topic, let indices):
                fingerprint ^= join(indices, of: sender, to: topic, in: project)
            case .leave(let project, let topic, let indices):
                fingerprint ^= leave(indices, of: sender, from: topic, in: project)
            case .replace(let slice):
                replace(slice, of: sender)
                if slice.isLast { fingerprint = topics.fingerprint(names, of: sender) }
            }
        }
        if isLast {
            (mark.number, mark.fingerprint, mark.part) = (entry.number, fingerprint, nil)
        } else {
            let items = behind + UInt32(entry.items.count)
            mark.part = InboxMark.Part(entry: entry.number, items: items, fingerprint: fingerprint)
        }
        marks[sender] = mark
    }

    // MARK: Topics

    mutating func join(
        _ indices: [UInt32], of partition: PartitionID, to topic: TopicName, in project: ProjectNumber
    ) -> UInt64 {
        guard let writer else { return topics.join(indices, of: partition, to: topic, in: project, names) }
        // The writer must learn of the topic before it changes, so a new topic gets its number here.
        let number = names.retain(topic.utf8, in: project)
        writer.touch(topic: number, self)
        defer { names.release(number) }
        return topics.join(indices, of: partition, to: topic, in: project, names)
    }

    mutating func leave(
        _ indices: [UInt32], of partition: PartitionID, from topic: TopicName, in project: ProjectNumber
    ) -> UInt64 {
        if let writer, let number = names.number(of: topic.utf8, in: project) {
            writer.touch(topic: number, self)
        }
        return topics.leave(indices, of: partition, from: topic, in: project, names)
    }

    private mutating func fanOut(
        _ message: Envelope, to topic: TopicName, in project: ProjectNumber, _ cursor: inout Cursor
    ) {
        cursor.ordinal += 1
        guard let number = names.number(of: topic.utf8, in: project) else { return }
        let parts = topics.parts(number)
        for part in parts {
            addToOutbox(.message(project: project, message, part.devices), to: part.partition, &cursor)
        }
        fanouts.begin(project, message.id, parts: parts.count)
    }
}

/// An accepted condition for which not all device partitions have answered yet.
struct PendingCondition: Sendable {
    var project: ProjectNumber
    var condition: Condition
    var message: Envelope
    /// The partitions that have not decided. Empty: none has.
    var undecided: [PartitionID] = []

    func isAwaited(_ partition: PartitionID) -> Bool { undecided.isEmpty || undecided.contains(partition) }
}

/// Counts down what waits for a device that leaves an entry.
@inline(__always)
func departure(_ devices: inout DeviceTable) -> DeliveryLog.Departure {
    let pages = devices.pages
    return { index, collapsible in
        let number = Int(index) / DeviceTable.pageSize
        guard number < pages.count, let page = pages[number] else { return }
        let slot = Int(index) % DeviceTable.pageSize
        if collapsible {
            if page.collapsible[slot] > 0 { page.collapsible[slot] -= 1 }
        } else if page.waiting[slot] > 0 {
            page.waiting[slot] -= 1
        }
    }
}
