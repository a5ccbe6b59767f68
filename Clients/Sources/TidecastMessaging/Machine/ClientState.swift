/// What outlives the process, except the registration.
struct ClientState: Codable, Equatable, Sendable {
    /// What the app wants of one topic.
    struct Wish: Codable, Equatable, Sendable {
        var isWanted: Bool
        /// Grows with each change of any wish.
        var version: UInt64
        /// The version that the server has confirmed for the present registration; 0 for none. A wish is
        /// settled if both are equal.
        var confirmed: UInt64 = 0

        var isSettled: Bool { version == confirmed }
    }

    /// A topic that is settled as not wanted has no entry, so that a backend may subscribe the device.
    var wishes: [String: Wish] = [:]
    var version: UInt64 = 0
    /// The registration to which confirmations and position belong.
    var fid: String?
    /// The last event that the app has handled. The next stream begins behind this event, and the server then
    /// counts everything up to it as acknowledged.
    var position: String?
    var isAutoInitEnabled: Bool?
    var address: PushAddress?
    /// The address that the server has for the present registration.
    var confirmedAddress: PushAddress?

    /// Begins with a new registration, or with none: the server knows nothing of what the previous one had.
    mutating func reset(fid: String?) {
        guard self.fid != fid else { return }
        self.fid = fid
        position = nil
        confirmedAddress = nil
        // A new registration has no subscriptions, so there is nothing to end.
        wishes = wishes.filter(\.value.isWanted)
        for topic in wishes.keys { wishes[topic]?.confirmed = 0 }
    }

    mutating func nextVersion() -> UInt64 {
        version += 1
        return version
    }
}
