/// When the laws of a machine are looked at.
///
/// A law says of a machine's state what holds between any two events. Each machine names its laws in one
/// place (`X+Invariants.swift`): `brokenInvariant` is the first that does not hold, in plain words. A debug
/// build looks at the end of each event, and ends where one is broken. Whoever holds the machine may look
/// itself instead, as the simulator does, and report it.
///
/// Laws that concern every entry of a large machine are looked at now and then, so that they cost as much as
/// a few entries an event. Which event that is depends on what came before alone, so two runs are the same.
public struct LawWatch: Sendable {
    /// Whoever holds the machine looks at its laws.
    public var isHolders = false
    private var saved = 0

    public init() {}

    #if DEBUG
        /// Of so many entries each event pays the look.
        private static let entries = 16
        /// What a look costs besides, in entries.
        private static let extra = 0
    #else
        private static let entries = 4
        private static let extra = 32
    #endif

    /// `isWholeDue`; `nil` where the holder looks.
    public mutating func isWholeDueHere(size: Int) -> Bool? { isHolders ? nil : isWholeDue(size: size) }

    /// Ends the process where a law is broken.
    public static func demand(_ broken: String?) {
        if let broken { preconditionFailure(broken) }
    }

    /// Looks at a machine where its holder keeps it: a property of a class, read, would be copied as a whole.
    public static func look<Machine>(
        at machine: inout Machine, _ brokenInvariant: (inout Machine) -> String?
    ) -> String? {
        brokenInvariant(&machine)
    }

    /// Whether a look at all of a machine's `size` entries is due. Asked for each event.
    public mutating func isWholeDue(size: Int) -> Bool {
        saved += LawWatch.entries
        guard saved >= size + LawWatch.extra else { return false }
        saved = 0
        return true
    }
}
