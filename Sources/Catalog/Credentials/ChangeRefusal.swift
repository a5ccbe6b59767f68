/// Why a change of the catalog is not made; the caller shows it to the operator.
public struct ChangeRefusal: Error, Hashable, Sendable {
    public enum Reason: Hashable, Sendable {
        /// What the request names is not there.
        case unknown
        /// The field of the request is wrong, or missing.
        case wrong(field: String)
        /// It exists already.
        case conflict
        /// The present state does not allow the change.
        case precondition
    }
    public var reason: Reason
    public var message: String
    public init(_ reason: Reason, _ message: String) {
        self.reason = reason
        self.message = message
    }
}
