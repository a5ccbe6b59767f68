/// When the invariants of a machine are checked.
///
/// An invariant says what holds of a machine's state between any two events. Each machine names its
/// invariants in one place (`X+Invariants.swift`): `brokenInvariant` is the first invariant that does not
/// hold, as a sentence. A debug build checks at the end of each event, and ends if an invariant is broken.
/// The holder of the machine may check instead, as the simulator does, and report the invariant.
///
/// Invariants about every entry of a large machine are checked now and then, so that they cost as much as a
/// few entries for each event. Only earlier events decide when, so two runs are the same.
public struct InvariantSchedule: Sendable {
    /// The holder of the machine checks its invariants.
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

    /// As `isWholeDue`; `nil` if the holder checks.
    public mutating func isWholeDueHere(size: Int) -> Bool? { isHolders ? nil : isWholeDue(size: size) }

    /// Ends the process if an invariant is broken.
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
        saved += InvariantSchedule.entries
        guard saved >= size + InvariantSchedule.extra else { return false }
        saved = 0
        return true
    }
}

/// A machine that checks its invariants itself, at the end of each event in a debug build.
public protocol InvariantChecking {
    var invariantSchedule: InvariantSchedule { get set }
    /// About how many entries a whole check visits.
    var checkSize: Int { get }
    /// The first invariant that does not hold; `nil` if all do. `isWhole`: also those of each entry.
    func brokenInvariant(isWhole: Bool) -> String?
}

extension InvariantChecking {
    @inlinable
    public mutating func checkInvariants() {
        #if DEBUG
            guard let isWhole = invariantSchedule.isWholeDueHere(size: checkSize) else { return }
            InvariantSchedule.demand(brokenInvariant(isWhole: isWhole))
        #endif
    }
}
