import Bytes
import Model

/// What became of the newest messages for a device at one push service, as its partition's owner has seen.
/// None of this is in the journal.
public struct PushHistory: Hashable, Sendable {
    /// What the owner does for the device now.
    public enum Activity: UInt8, CaseIterable, Sendable {
        case idle = 0
        /// A message waits for its turn.
        case queued = 1
        /// A message is with the sender or at the service.
        case sending = 2
        /// A message waits for another try, or for the device's stream.
        case waiting = 3
        /// The service's circuit is open.
        case paused = 4
    }
    public struct Attempt: Hashable, Sendable {
        /// `nil` if the event has no id that this build knows.
        public var message: MessageID?
        public var time: WallTime
        public var outcome: PushOutcome
        /// How often the message had been tried in vain before.
        public var tries: Int
        public init(message: MessageID?, time: WallTime, outcome: PushOutcome, tries: Int) {
            self.message = message
            self.time = time
            self.outcome = outcome
            self.tries = tries
        }
    }
    public var kind: Transport.Kind
    public var activity: Activity
    public var accepted: Attempt?
    public var failed: Attempt?
    public init(kind: Transport.Kind, activity: Activity, accepted: Attempt? = nil, failed: Attempt? = nil) {
        self.kind = kind
        self.activity = activity
        self.accepted = accepted
        self.failed = failed
    }
}

/// The newest attempt of each device, for a bounded number of devices: the device that has been in the table
/// longest leaves first.
struct RecentAttempts {
    struct Entry {
        var kind: Transport.Kind
        var attempt: PushHistory.Attempt
    }
    var table = NewestTable<UInt32, Entry>()

    subscript(index: UInt32) -> Entry? { table[index] }

    mutating func note(_ entry: Entry, of index: UInt32, devicesMax: Int) {
        table.update(index, default: entry, keysMax: devicesMax) { $0 = entry }
    }

    func brokenInvariant(devicesMax: Int) -> String? {
        if table.count > devicesMax { return "more attempts of pushes are kept than may be" }
        return table.isInOrder ? nil : "kept attempts of pushes are out of order"
    }
}

extension Partition {
    /// A sender has tried to push a message.
    func note(_ outcome: PushOutcome?, of sending: PushTable.Sending, tries: Int, _ now: Instant) {
        guard let outcome else { return }
        if outcome == .expired { pushes.countedEnds.note(sending.index, at: sending.position) }
        let attempt = PushHistory.Attempt(
            message: sending.message, time: now.wall, outcome: outcome, tries: tries)
        let entry = RecentAttempts.Entry(kind: sending.origin.kind, attempt: attempt)
        if case .accepted = outcome {
            pushes.accepted.note(entry, of: sending.index, devicesMax: options.pushAttemptsMax)
        } else {
            pushes.failed.note(entry, of: sending.index, devicesMax: options.pushAttemptsMax)
        }
        guard let message = sending.message else { return }
        let tally = PushTally(kind: sending.origin.kind, outcome: outcome, count: 1, newest: now.wall)
        pushes.tallies.note(
            tally, of: message, in: sending.origin.project, messagesMax: options.pushAttemptsMax)
    }

    /// What is known of the device's pushes, by the kinds of its addresses.
    func pushHistory(of index: UInt32, _ stored: [StoredTransport]) -> [PushHistory] {
        let inUse = pushAddress(index)?.transport.kind
        return stored.map(\.transport.kind).compactMap { kind in
            let found = PushHistory(
                kind: kind, activity: kind == inUse ? pushes.activity(index) : .idle,
                accepted: pushes.accepted[index].flatMap { $0.kind == kind ? $0.attempt : nil },
                failed: pushes.failed[index].flatMap { $0.kind == kind ? $0.attempt : nil })
            return found == PushHistory(kind: kind, activity: .idle) ? nil : found
        }
    }
}

extension PushTable {
    func activity(_ index: UInt32) -> PushHistory.Activity {
        switch state(index) {
        case nil: .idle
        case .queued: .queued
        case .reading, .sending: .sending
        case .waiting: .waiting
        case .parked: .paused
        }
    }
}
