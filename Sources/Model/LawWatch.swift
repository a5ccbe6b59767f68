/// When the laws of a machine are checked.
///
/// A law says what holds of a machine's state between any two events. Each machine names its laws in one
/// place (`X+Invariants.swift`): `brokenInvariant` is the first law that does not hold, as a sentence. A
/// debug build checks at the end of each event, and ends where a law is broken. The holder of the machine may
/// check instead, as the simulator does, and report the law.
///
/// Laws about every entry of a large machine are checked now and then, so that they cost as much as a few
/// entries for each event. Only earlier events decide when, so two runs are the same.
public struct LawWatch: Sendable {
    /// The holder of the machine checks its laws.
    public var isHolders = false
    private var saved = 0

    public init() {}

    #if DEBUG
        /// Entries for whose check each event pays.
        private static let entries = 16
        /// Fixed cost of a check, in entries.
        private static let extra = 0
    #else
        private static let entries = 4
        private static let extra = 32
    #endif

    /// As `isWholeDue`; `nil` where the holder checks.
    public mutating func isWholeDueHere(size: Int) -> Bool? { isHolders ? nil : isWholeDue(size: size) }

    /// Ends the process where a law is broken.
    public static func demand(_ broken: String?) {
        if let broken { preconditionFailure(broken) }
    }

    /// Checks a machine in its holder's property. Reading a property of a class would copy the whole machine.
    public static func look<Machine>(
        at machine: inout Machine, _ brokenInvariant: (inout Machine) -> String?
    ) -> String? {
        brokenInvariant(&machine)
    }

    /// Whether a check of all of a machine's `size` entries is due. Must be called for each event.
    public mutating func isWholeDue(size: Int) -> Bool {
        saved += LawWatch.entries
        guard saved >= size + LawWatch.extra else { return false }
        saved = 0
        return true
    }
}
