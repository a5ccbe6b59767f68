/// A change of a project's settings for Web Push. `nil` leaves a setting as it is.
public struct WebPushChange: Sendable {
    public var subject: String?
    /// All listed push services; empty: none.
    public var hosts: [String]?
    /// Certificate authorities, PEM; empty: the system's.
    public var authority: [UInt8]?
    public var wantsNewKey = false

    public init(subject: String? = nil) { self.subject = subject }
}

/// A change of a project's settings for the relay to FCM. `nil` leaves a setting as it is.
public struct RelayChange: Sendable {
    public var account: RelaySettings.Account?
    /// Empty: Google's.
    public var endpoint: String?
    /// Certificate authorities, PEM; empty: the system's.
    public var authority: [UInt8]?

    public init(account: RelaySettings.Account? = nil) { self.account = account }
}
