import Model

extension Envelope {
    /// Which parts an envelope has in records, frames and snapshots.
    struct Flags: OptionSet {
        let rawValue: UInt8
        /// The message does not end everywhere at once: four times instead of one.
        static let severalTimes = Flags(rawValue: 1)
        static let collapseKey = Flags(rawValue: 2)
        static let share = Flags(rawValue: 4)
        static let all: Flags = [.severalTimes, .collapseKey, .share]

        init(rawValue: UInt8) { self.rawValue = rawValue }

        init(severalTimes: Bool, key: [UInt8], share: [UInt8]) {
            self = []
            if severalTimes { insert(.severalTimes) }
            if !key.isEmpty { insert(.collapseKey) }
            if !share.isEmpty { insert(.share) }
        }
    }

    var flags: Flags { Flags(severalTimes: !times.areSame, key: collapseKey, share: share) }
}
