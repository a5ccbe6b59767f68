/// What the server gave this device. The credential belongs to the device alone; the FID and the token are
/// addresses that others may know.
struct Registration: Codable, Equatable, Sendable {
    var fid: String
    /// The FID, a colon, and a proof.
    var token: String
    var credential: String

    /// With this text the server gives an auth token: the credential, a dot, and the proof of the token.
    var refreshToken: String { "\(credential).\(token.dropFirst(fid.utf8.count + 1))" }
}

/// The device's registration, and those that the app has ended. One entry holds both, so that a registration
/// goes from one to the other in one write.
struct Registrations: Codable, Equatable, Sendable {
    var current: Registration?
    /// The server has not yet said that it has ended these.
    var ended: [Registration] = []
    /// Registrations that a server has never made. The client asks to end these too, for the case that it was
    /// another server. `nil` in files of earlier versions.
    var replaced: [Registration]?
}

/// How long a server has said, without a success meanwhile, that it has never made a registration.
struct Doubt {
    /// So long it must say so: another server may answer in its place for some seconds.
    private static let lengthMin = Duration.seconds(60)
    /// After so long without such an answer the next one is the first again.
    private static let gapMax = Duration.seconds(7200)
    private var since: Duration?
    private var last = Duration.zero

    /// Notes such an answer. Returns whether the client believes it now.
    mutating func isConfirmed(now: Duration) -> Bool {
        let since = now - last > Doubt.gapMax ? now : self.since ?? now
        (self.since, last) = (since, now)
        return now - since >= Doubt.lengthMin
    }
}

/// The device's address at Apple's push service.
struct PushAddress: Codable, Equatable, Sendable {
    /// Hexadecimal.
    var token: String
    var isSandbox: Bool
    var bundleID: String
    /// Whether the server keeps what Apple's push service has taken until the app acknowledges it.
    var keepsMessages = false
}
