import Model
import Partitions

/// A broken guarantee, and a sentence that says how.
public struct Violation: Sendable, CustomStringConvertible {
    public var guarantee: String
    public var description: String

    init(_ guarantee: String, _ description: String) {
        (self.guarantee, self.description) = (guarantee, description)
    }
}

/// What a device's subscription to a topic can have been, judged by the answers to its client.
private struct SubscriptionView {
    let changes: [History.Change]

    enum State { case yes, no, open }

    /// The state over a whole span of time; `open` if the history leaves it open.
    func during(_ from: MonotonicTime, _ to: MonotonicTime) -> State {
        var state = State.no
        for change in changes {
            switch change.outcome {
            case .ok(let at) where at < from: state = change.subscribe ? .yes : .no
            case .refused: continue
            case .ok where change.began > to: return state
            case .unknown where change.began > to: return state
            default:
                // The change was under way during the span, or has no answer. It may have taken effect at any
                // time since it began, unless it asked for the state that held already.
                if (change.subscribe && state == .yes) || (!change.subscribe && state == .no) { continue }
                state = .open
            }
        }
        return state
    }
}

/// The guarantees of docs/protocol.md, each checked over a history alone.
public struct Checkers {
    let history: History
    let rules: Rules
    private var views: [Int: [Int: SubscriptionView]] = [:]

    public struct Rules {
        /// How long a message may be under way after a device partition has placed it: two commits
        /// that stall, and the link.
        public var underWay: TimeSpan = .seconds(4)
        /// Bounds past which a partition drops waiting messages, with notice: messages that wait for one
        /// device, and bytes that wait for a project.
        public var waitingMax = Int(DeliveryLimits().waitingMax)
        public var waitingBytesMax = PartitionOptions(partitionCount: 1).waitingBytesMax
        /// Devices that push services reach alone. Nobody notifies them of messages that were dropped.
        public var isSilent: (Int) -> Bool = { _ in false }
        /// The kinds of push services at which a device may have an address: its streams go on with a message
        /// as long as the last of the services would.
        public var kinds: (Int) -> [Transport.Kind] = { _ in [] }
        /// The service to which a device's messages go when all has settled.
        public var lastKind: (Int) -> Transport.Kind? = { _ in nil }
        /// Devices that acknowledge what push services get for them, and listen when all has settled: their
        /// streams show all that they have not acknowledged (rule: kept-until-acknowledged).
        public var keepsMessages: (Int) -> Bool = { _ in false }
        /// Devices that acknowledge what push services get for them, and never listen: a push is a doorbell
        /// for all that waits.
        public var isRung: (Int) -> Bool = { _ in false }
        /// Whether a device has surely had an address of its last kind from this time on.
        public var hasAddress: (_ device: Int, _ since: MonotonicTime) -> Bool = { _, _ in false }
        /// Whether the device's partition was away when the sender of the condition was answered. It decides
        /// later (rule: conditions-at-the-devices).
        public var isUndecided: (_ message: UInt64, _ device: Int) -> Bool = { _, _ in false }
        /// So many answers that explain nothing must come to a message before the next one may end it.
        public var unexplainedMin = Int.max
        /// Whether a service has denied the device, and the message waits in the device's log.
        public var isHeld: (_ message: UInt64, _ device: Int) -> Bool = { _, _ in false }
        /// Whether starts may have believed clocks by which every message ends.
        public var mayEndLong = false
        /// Whether a start may believe an earlier time, by which messages wait again that were over.
        public var mayFall = false
        public init() {}
    }

    public init(_ history: History, rules: Rules = Rules()) {
        self.history = history
        self.rules = rules
        var changes: [Int: [Int: [History.Change]]] = [:]
        for change in history.changes {
            changes[change.device, default: [:]][change.topic, default: []].append(change)
        }
        for (device, topics) in changes { views[device] = topics.mapValues { SubscriptionView(changes: $0) } }
    }

    public func all() -> [Violation] {
        subscriptionsKept() + sendsArrive() + nobodyElse() + ordered() + notAgain() + acceptedOnce()
            + notLate() + notAfterTheEnd() + notDroppedLightly()
    }

    private func state(_ device: Int, _ topic: Int, from: MonotonicTime, to: MonotonicTime)
        -> SubscriptionView.State
    {
        views[device]?[topic]?.during(from, to) ?? .no
    }

    /// Whether the device was certainly subscribed for all that time.
    func isSubscribed(_ device: Int, _ topic: Int, from: MonotonicTime, to: MonotonicTime) -> Bool {
        state(device, topic, from: from, to: to) == .yes
    }

    /// G1: an acknowledged subscribe or unsubscribe is never lost, nor undone.
    func subscriptionsKept() -> [Violation] {
        var found: [Violation] = []
        for (device, topics) in views where history.gone[device] == nil {
            for (topic, _) in topics {
                let isMember = history.final[device]?.contains(topic) ?? false
                switch state(device, topic, from: .max, to: .max) {
                case .yes where !isMember:
                    found.append(Violation("G1", "device \(device) lost topic \(topic)"))
                case .no where isMember:
                    found.append(Violation("G1", "device \(device) has topic \(topic) back"))
                default: break
                }
            }
        }
        return found
    }

    private func entitled(
        _ device: Int, _ target: History.Send.Target, from: MonotonicTime, to: MonotonicTime
    )
        -> SubscriptionView.State
    {
        switch target {
        case .device(let only): return only == device ? .yes : .no
        case .topic(let topic): return state(device, topic, from: from, to: to)
        case .butNot(let wanted, let other):
            if let known = atEachMoment(device, (wanted, other), from: from, to: to, holds: { $0 && !$1 }) {
                return known
            }
            switch (state(device, wanted, from: from, to: to), state(device, other, from: from, to: to)) {
            case (.yes, .no): return .yes
            case (.no, _), (_, .yes): return .no
            default: return .open
            }
        case .either(let one, let other):
            if let known = atEachMoment(device, (one, other), from: from, to: to, holds: { $0 || $1 }) {
                return known
            }
            switch (state(device, one, from: from, to: to), state(device, other, from: from, to: to)) {
            case (.yes, _), (_, .yes): return .yes
            case (.no, .no): return .no
            default: return .open
            }
        }
    }

    /// Whether the condition over two topics holds at each moment of the span, or at none. A swap of topics
    /// is a sequence of states, and a condition is decided in one of them (rule: conditions-at-the-devices).
    /// `nil` if the history does not say in which order the device's changes took effect.
    private func atEachMoment(
        _ device: Int, _ topics: (Int, Int), from: MonotonicTime, to: MonotonicTime,
        holds: (Bool, Bool) -> Bool
    ) -> SubscriptionView.State? {
        var changes: [(began: MonotonicTime, ended: MonotonicTime, first: Bool, subscribe: Bool)] = []
        for topic in Set([topics.0, topics.1]) {
            for change in views[device]?[topic]?.changes ?? [] where change.began <= to {
                switch change.outcome {
                case .ok(let at):
                    changes.append((change.began, at, topic == topics.0, change.subscribe))
                case .refused: continue
                case .unknown: return nil
                }
            }
        }
        changes.sort { $0.began < $1.began }
        if zip(changes, changes.dropFirst()).contains(where: { $0.ended >= $1.began }) { return nil }
        var (first, second) = (false, false)
        var held: Set<Bool> = []
        for change in changes {
            // The state before a change that ended in the span may be that of the decision.
            if change.ended >= from { held.insert(holds(first, second)) }
            if change.first { first = change.subscribe }
            if !change.first || topics.0 == topics.1 { second = change.subscribe }
        }
        held.insert(holds(first, second))
        guard let only = held.first, held.count == 1 else { return .open }
        return only ? .yes : .no
    }

    /// G2: an acknowledged send reaches every device that was subscribed, unless replaced or dropped with
    /// notice.
    func sendsArrive() -> [Violation] {
        if rules.mayEndLong { return [] }
        var got: [Int: Set<UInt64>] = [:]
        let pushes = history.pushes.filter { !rules.keepsMessages($0.device) }
        for delivery in history.deliveries + pushes {
            got[delivery.device, default: []].insert(delivery.message)
        }
        var found: [Violation] = []
        for send in history.sends where send.key.isEmpty {
            guard case .ok(let at) = send.outcome else { continue }
            for device in history.final.keys where send.began >= history.told[device] ?? .zero {
                let end = rules.isUndecided(send.message, device) ? .max : at
                guard entitled(device, send.target, from: send.began, to: end) == .yes else { continue }
                guard waits(send, for: device) else { continue }
                if rules.isSilent(device), mayBeDropped(device) { continue }
                if isRung(device, behind: send) { continue }
                // Two such answers end the message, as `UnderWayChecks` sees.
                if history.oldNews(of: send.message, to: device) > 1 { continue }
                // Such a message may be given up, as `PushChecks` sees.
                if history.unexplained(send.message, to: device) > rules.unexplainedMin { continue }
                if !(got[device]?.contains(send.message) ?? false), !isHeld(send, for: device) {
                    found.append(
                        Violation(
                            "G2", "message \(send.message) (\(send.target)) never reached device \(device)"))
                }
            }
        }
        return found
    }

    /// Whether the message must still wait for the device when everything has settled.
    private func waits(_ send: History.Send, for device: Int) -> Bool {
        let isPushed = rules.lastKind(device).map { send.waitsAt.contains($0) } ?? false
        if send.waitsOnStreams { return !rules.isSilent(device) || isPushed }
        return isPushed && rules.hasAddress(device, send.began)
    }

    /// Whether so much was sent that messages for the device may have been dropped.
    private func mayBeDropped(_ device: Int) -> Bool {
        let mine = history.sends.filter { entitled(device, $0.target, from: $0.began, to: .max) != .no }
        let bytes = history.sends.reduce(0) { $0 + $1.bytes }
        return mine.count >= rules.waitingMax || UInt64(bytes) > rules.waitingBytesMax
    }

    /// G2: no message comes on a stream that began after the message's acknowledgement was answered.
    func notAgain() -> [Violation] {
        var found: [Violation] = []
        for said in history.acknowledgements {
            for delivery in history.deliveries
            where delivery.device == said.device && (delivery.streamBegan ?? delivery.at) > said.at
                && delivery.position <= said.position
            {
                found.append(
                    Violation(
                        "G2",
                        "message \(delivery.message) came to device \(said.device) after it was acknowledged")
                )
            }
        }
        return found
    }

    /// A send that its gateway repeated is accepted once (rule: repeats-do-not-double): the message has one
    /// position in a device's log.
    func acceptedOnce() -> [Violation] {
        struct Arrival: Hashable {
            var device: Int
            var message: UInt64
        }
        var positions: [Arrival: UInt64] = [:]
        var found: [Violation] = []
        for delivery in history.deliveries {
            let arrival = Arrival(device: delivery.device, message: delivery.message)
            if let position = positions[arrival], position != delivery.position {
                found.append(
                    Violation(
                        "G2",
                        "message \(delivery.message) was accepted twice and came twice to device \(delivery.device)"
                    ))
            }
            positions[arrival] = delivery.position
        }
        return found
    }

    /// G2: no message comes after its time to live on the way on which it comes.
    func notLate() -> [Violation] {
        let sends = Dictionary(history.sends.map { ($0.message, $0) }) { first, _ in first }
        var found: [Violation] = []
        func check(_ delivery: History.Delivery, by end: MonotonicTime?, way: String) {
            guard let end, delivery.at > end + rules.underWay else { return }
            found.append(
                Violation(
                    "G2", "message \(delivery.message) came to device \(delivery.device) too late\(way)"))
        }
        for delivery in history.deliveries {
            let send = sends[delivery.message]
            var end = send?.expires
            for kind in rules.kinds(delivery.device) {
                guard let former = end else { break }
                end = send?.pushExpires[kind].map { max($0, former) }
            }
            check(delivery, by: end, way: "")
        }
        for push in history.pushes {
            let ends = sends[push.message]?.pushExpires
            check(push, by: push.service.flatMap { ends?[$0] }, way: " at its push service")
        }
        return found
    }

    /// G3: no device gets a message that its subscriptions do not entitle it to.
    func nobodyElse() -> [Violation] {
        let sends = Dictionary(uniqueKeysWithValues: history.sends.map { ($0.message, $0) })
        var found: [Violation] = []
        for delivery in history.deliveries + history.pushes {
            guard let send = sends[delivery.message] else {
                found.append(Violation("G3", "message \(delivery.message) was never sent"))
                continue
            }
            // The send was accepted at some moment between its beginning and this delivery.
            if entitled(delivery.device, send.target, from: send.began, to: delivery.at) == .no {
                found.append(
                    Violation(
                        "G3",
                        "message \(delivery.message) came to device \(delivery.device), which is not in \(send.target)"
                    ))
            }
            if case .refused = send.outcome {
                found.append(Violation("G8", "message \(delivery.message) was refused and came"))
            }
        }
        return found
    }

    /// G3: nothing comes on a stream that a device opened after it was unregistered.
    func notAfterTheEnd() -> [Violation] {
        history.deliveries.compactMap { delivery in
            guard let ended = history.gone[delivery.device]?.ended, let began = delivery.streamBegan,
                began > ended
            else { return nil }
            return Violation(
                "G3", "message \(delivery.message) came to device \(delivery.device), which had ended")
        }
    }

    /// G2: a device is notified of dropped messages only if enough messages can have waited for the device,
    /// or enough bytes for its project.
    func notDroppedLightly() -> [Violation] {
        var found: [Violation] = []
        for telling in history.tellings {
            let before = history.sends.filter { $0.began < telling.at }
            let mine = before.filter {
                entitled(telling.device, $0.target, from: $0.began, to: telling.at) != .no
            }
            guard mine.count < rules.waitingMax, let project = mine.first?.project ?? before.first?.project
            else { continue }
            let bytes = before.reduce(0) { $0 + ($1.project == project ? $1.bytes : 0) }
            guard UInt64(bytes) <= rules.waitingBytesMax else { continue }
            found.append(
                Violation(
                    "G2",
                    "device \(telling.device) was told that messages were dropped when \(mine.count) can have waited"
                ))
        }
        return found
    }

    /// G4: first deliveries of the sends to one topic come in the order of acceptance, as far as clients know
    /// this order: a send that was answered was accepted before each send that began later.
    func ordered() -> [Violation] {
        var sends: [UInt64: History.Send] = [:]
        for send in history.sends { if case .topic = send.target { sends[send.message] = send } }
        // Of the earlier sends the one that began last says enough.
        var newest: [Int: [Int: History.Send]] = [:]
        var seen: [Int: Set<UInt64>] = [:]
        var found: [Violation] = []
        for delivery in history.deliveries {
            guard let send = sends[delivery.message], case .topic(let topic) = send.target,
                seen[delivery.device, default: []].insert(delivery.message).inserted,
                // A message may come late by a clock that is behind: `notLate` checks those.
                delivery.at <= send.expires ?? .max, send.waitsOnStreams || !rules.mayFall
            else { continue }
            let before = newest[delivery.device]?[topic]
            if let before, case .ok(let at) = send.outcome, at < before.began {
                found.append(
                    Violation(
                        "G4",
                        "device \(delivery.device) got \(send.message) of topic \(topic) after \(before.message)"
                    ))
            }
            newest[delivery.device, default: [:]][topic] =
                before.map { $0.began >= send.began ? $0 : send } ?? send
        }
        return found
    }
}
