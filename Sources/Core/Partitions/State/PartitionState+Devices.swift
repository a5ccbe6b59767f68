import Model
import Placement

extension PartitionState {
    func home(of topic: TopicName, in project: ProjectNumber) -> PartitionID {
        Placement.partition(of: topic, in: project, count: partitionCount)
    }

    /// The partitions of the topics that a device is subscribed to.
    func homes(of index: UInt32) -> Set<PartitionID> {
        guard let (page, slot) = devices.find(index) else { return [] }
        let project = ProjectNumber(page.projects[slot])
        let list = page.topics[slot]
        return Set((0..<list.count).map { home(of: names.name(list[$0].topic), in: project) })
    }

    mutating func subscribe(
        _ indices: [UInt32], to topic: TopicName, in project: ProjectNumber, on day: Day,
        _ cursor: inout Cursor
    ) {
        guard !indices.isEmpty else { return }
        let number = names.retain(topic.utf8, in: project)
        for index in indices {
            guard let (page, slot) = devices.find(index) else {
                preconditionFailure("subscribing a device that is gone")
            }
            writer?.touch(device: index, self)
            names.retain(number)
            page.topics[slot].append(number, since: day)
            held.add(index, to: number)
        }
        names.release(number)
        let home = home(of: topic, in: project)
        note(indices, of: topic, in: project, at: home)
        addToOutbox(.join(project: project, topic: topic, indices: indices), to: home, &cursor)
    }

    mutating func unsubscribe(
        _ indices: [UInt32], from topic: TopicName, in project: ProjectNumber, _ cursor: inout Cursor
    ) {
        guard !indices.isEmpty, let number = names.number(of: topic.utf8, in: project) else { return }
        for index in indices {
            guard let (page, slot) = devices.find(index), let at = page.topics[slot].index(of: number)
            else {
                preconditionFailure("unsubscribing a device that is not subscribed")
            }
            writer?.touch(device: index, self)
            page.topics[slot].remove(at: at)
            held.remove(index, from: number)
            names.release(number)
        }
        let home = home(of: topic, in: project)
        note(indices, of: topic, in: project, at: home)
        addToOutbox(.leave(project: project, topic: topic, indices: indices), to: home, &cursor)
    }

    private mutating func note(_ loss: Loss?, of index: UInt32) {
        writer?.touch(device: index, self)
        overflowed[index] = loss
    }

    mutating func end(_ index: UInt32, _ cursor: inout Cursor) {
        guard let (page, slot) = devices.find(index) else { return }
        writer?.touch(device: index, self)
        let project = ProjectNumber(page.projects[slot])
        // A receiver may apply this entry in parts, and a new owner may fold the entry again in between. Its
        // items must come in one order, whatever order the device table has.
        let left = (0..<page.topics[slot].count).map { page.topics[slot][$0].topic }
            .map { (number: $0, topic: names.name($0)) }
            .sorted { $0.topic < $1.topic }
        for (number, topic) in left {
            let home = home(of: topic, in: project)
            note([index], of: topic, in: project, at: home)
            addToOutbox(.leave(project: project, topic: topic, indices: [index]), to: home, &cursor)
            held.remove(index, from: number)
            names.release(number)
        }
        if page.waiting[slot] > 0 || page.collapsible[slot] > 0 {
            log.losing(.deviceEnded) { $0.drop(DeviceSet(index), upTo: $0.last) { _, _ in } }
        }
        overflowed[index] = nil
        transports[index] = nil
        devices.remove(index: index)
    }

    /// Updates the fingerprint of what `home` should have of this partition, before the item is sent.
    private mutating func note(
        _ indices: [UInt32], of topic: TopicName, in project: ProjectNumber, at home: PartitionID
    ) {
        outboxes[home, default: Outbox()].fingerprint ^= Fingerprint.of(
            Fingerprint.topic(topic.utf8, project), indices)
    }

    // MARK: Deliveries

    /// Puts a message into the log for the `targets` that are still devices of the message's project.
    mutating func deliver(
        _ message: Envelope, of project: ProjectNumber, to targets: DeviceSet, by decision: DeliveryDecision,
        _ cursor: inout Cursor
    ) {
        let ordinal = cursor.ordinal
        cursor.ordinal += 1
        defer { log.skip(to: decision.position) }
        let momentary = transports.isEmpty ? [] : message.times.momentary
        var targets = registered(targets, project)
        let attempted = momentary.isEmpty ? DeviceSet() : transports.targets(targets, momentary)
        let kept = decision.kept(targets, transports)
        if decision.disposition == .late {
            log.drops.add(targets.subtracting(kept).subtracting(attempted).count, .late)
            targets = kept
        }
        guard !targets.isEmpty || !attempted.isEmpty else { return }
        var delivery = Delivery(
            position: decision.position, event: message.event, targets: targets, overflowed: DeviceSet())
        if !attempted.isEmpty {
            delivery.momentary = PartitionState.Momentary(
                kinds: momentary, sent: message.sent, kept: decision.isRefused ? DeviceSet() : kept,
                targets: attempted)
        }
        if decision.isRefused {
            let told = Position(decision.position.rawValue - 1)
            kept.forEach { note(Loss(told: told, record: cursor.record), of: $0) }
            delivery.overflowed = kept
            log.drops.add(kept.count, .bytesMax)
        } else if !kept.isEmpty {
            delivery.overflowed = store(
                message, of: project, for: kept, by: decision, record: cursor.record, ordinal: ordinal)
        }
        cursor.deliveries.append(delivery)
    }

    private func registered(_ targets: DeviceSet, _ project: ProjectNumber) -> DeviceSet {
        var strangers = 0
        targets.forEach { if devices.project($0) != project.rawValue { strangers += 1 } }
        return strangers == 0 ? targets : targets.filtered { devices.project($0) == project.rawValue }
    }

    /// Returns the devices that lost older messages by this message.
    private mutating func store(
        _ message: Envelope, of project: ProjectNumber, for targets: DeviceSet, by decision: DeliveryDecision,
        record: Sequence, ordinal: UInt32
    ) -> DeviceSet {
        log.removingRecord = keepsRemovals ? record : nil
        defer { log.removingRecord = nil }
        if !decision.passed.isEmpty {
            let passed = log.dropOldest(
                decision.passed, depth: Int(limits.passDepth), upTo: decision.passedUpTo,
                departure(&devices))
            for (index, position) in passed { note(passed: position, by: index, record) }
        }
        let (share, owner) = (message.share, project.rawValue)
        let key = log.key(message.collapseKey, of: share, in: owner)
        let lost =
            CollapseKeys.collapses(key)
            ? collapse(key, targets, of: share)
            : overflow(targets, of: share, by: decision, record: record)
        // A key whose last entry was just replaced has lost its number, and needs another.
        let kept = log.key(message.collapseKey, of: share, in: owner)
        let kinds = message.times.areSame ? [] : transports.kinds(among: targets)
        let ends = EntryEnds(of: message, at: decision.position, for: kinds)
        log.append(
            LogEntry(
                position: decision.position, ends: ends, project: owner, key: kept,
                record: record, ordinal: ordinal, bytes: UInt32(message.event.count), targets: targets,
                body: message.event))
        return lost
    }

    /// Counts a message without a key. A target at its limit loses all that waited for it, or what waited of
    /// the share that had most (rule: shares-of-a-device).
    private mutating func overflow(
        _ targets: DeviceSet, of share: [UInt8], by decision: DeliveryDecision, record: Sequence
    ) -> DeviceSet {
        var full: [UInt32] = []
        targets.forEach { index in
            guard let (page, slot) = devices.find(index) else { return }
            let waiting = page.waiting[slot]
            if waiting >= limits.waitingMax,
                waiting >= limits.waitingHardMax || !decision.exempt.contains(index)
            {
                full.append(index)
            } else {
                page.waiting[slot] = waiting + 1
            }
        }
        guard !full.isEmpty else { return DeviceSet() }
        let lost = DeviceSet(sorted: full)
        let whole = log.keys.shareCount > 0 ? full.filter { !dropShares(of: $0, coming: share) } : full
        if !whole.isEmpty {
            log.losing(.waitingMax) {
                $0.drop(DeviceSet(sorted: whole), upTo: $0.last, departure(&devices))
            }
        }
        let told = Position(decision.position.rawValue - 1)
        for index in full {
            note(Loss(told: told, record: record), of: index)
            if let (page, slot) = devices.find(index) { page.waiting[slot] += 1 }
        }
        return lost
    }

    /// Makes room for a message of the share `coming`. Returns false if what waits names no share.
    private mutating func dropShares(of index: UInt32, coming: [UInt8]) -> Bool {
        guard let (page, slot) = devices.find(index) else { return false }
        while page.waiting[slot] >= limits.waitingMax {
            let hasRoom = log.losing(.waitingMax) {
                $0.dropShare(of: index, coming: coming, departure(&devices))
            }
            guard hasRoom else { return false }
        }
        return true
    }

    /// Takes the targets out of older entries with the key; a target with four other keys loses the oldest.
    private mutating func collapse(_ key: UInt32, _ targets: DeviceSet, of share: [UInt8]) -> DeviceSet {
        log.losing(.collapsed) { $0.collapse(key, for: targets, departure(&devices)) }
        targets.forEach { index in
            guard let (page, slot) = devices.find(index) else { return }
            if page.collapsible[slot] >= limits.collapsibleMax {
                log.losing(.keysMax) { $0.evictCollapsible(of: index, coming: share, departure(&devices)) }
            }
            page.collapsible[slot] += 1
        }
        return DeviceSet()
    }

    /// The body of a message is gone: the message leaves the log, and the devices that waited are notified.
    mutating func lose(_ position: Position, _ record: Sequence) {
        log.losing(.bodyGone) { $0.drop(at: position, departure(&devices)) }
            .forEach { note(passed: position, by: $0, record) }
    }

    /// Messages that were handed to a device's stream pass as delivered up to a position.
    mutating func pass(_ cursor: ReadUpTo, _ record: Sequence) {
        log.drop(cursor.devices, upTo: cursor.position, departure(&devices))
        cursor.devices.forEach { note(passed: cursor.position, by: $0, record) }
    }

    /// Whether the device was at the other end of its stream shows when it comes back. A device that
    /// acknowledges less may have lost what has passed, and is notified.
    private mutating func note(passed position: Position, by index: UInt32, _ record: Sequence) {
        guard devices.find(index) != nil else { return }
        note(Loss(told: max(position, overflowed[index]?.told ?? .zero), record: record), of: index)
    }

    mutating func read(_ cursor: ReadUpTo) {
        log.drop(cursor.devices, upTo: cursor.position, departure(&devices))
        guard !overflowed.isEmpty else { return }
        cursor.devices.forEach { index in
            if let loss = overflowed[index], loss.told <= cursor.position { note(nil, of: index) }
        }
    }
}
