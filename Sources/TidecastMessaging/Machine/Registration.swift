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
}

/// The device's address at Apple's push service.
struct PushAddress: Codable, Equatable, Sendable {
    /// Hexadecimal.
    var token: String
    var isSandbox: Bool
    var bundleID: String
    /// Whether the server keeps what Apple's push service has taken until the app acknowledges it; `nil` in
    /// the state of a former version, which did not ask.
    var keepsMessages: Bool?
}
