/// What requests must have in common to share connections. Apple's service binds a connection to the team and
/// the key of its first request, so a pool has one of each.
public struct APNsPool: Hashable, Sendable {
    /// A name or an address.
    public var host: String
    public var port: Int
    /// The authorities, as PEM, that may sign the service's certificate; `nil` for those of the system.
    public var caPEM: String?
    /// Apple's ids of the team and of its key, 10 characters each.
    public var teamID: String
    public var keyID: String
    /// Distinguishes keys that somebody gave the same id by mistake: the wrong one must not spoil the right
    /// one's connections.
    public var keyDigest: String

    public init(
        host: String, port: Int = 443, caPEM: String? = nil, teamID: String, keyID: String,
        keyDigest: String = ""
    ) {
        self.keyDigest = keyDigest
        self.host = host
        self.port = port
        self.caPEM = caPEM
        self.teamID = teamID
        self.keyID = keyID
    }

    /// The authorities are left out: they are long, and nearly always the same.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(host)
        hasher.combine(port)
        hasher.combine(teamID)
        hasher.combine(keyID)
    }
}

/// Names one connection of a client; never used twice.
public struct APNsConnectionID: Hashable, Sendable {
    let number: UInt64
    init(_ number: UInt64) { self.number = number }
}

/// What happened to a pool's connections, for an operator.
public enum APNsNews: Hashable, Sendable {
    /// A connection is ready: TLS is done, and the service chose HTTP/2.
    case connected
    /// A connection could not be made. The next attempt comes after a time that grows.
    case unreachable(reason: String)
    /// A ready connection has ended otherwise than by GOAWAY or by the client's own wish.
    case broke(reason: String)
    /// The service ends a connection in order (GOAWAY). `reason`: Apple's text, if the frame has one.
    /// Reported once for a connection; a second time if only a later frame has the text.
    case goAway(reason: String?)
}
