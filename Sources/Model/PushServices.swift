/// The push services of one project: those for which the project has settings, and which are on.
///
/// The control side tells the partitions, which choose a device's transport by it.
public struct PushServices: Hashable, Sendable {
    public var web = false
    /// The apps with a key at Apple's push service, as packed addresses name an app (`APNsAddress.app`).
    public var apps: Set<[UInt8]> = []
    public var fcm = false
    /// Whether a token that its environment at Apple's does not know may be tried in the other one.
    public var triesOtherEnvironment = false
    /// A checksum of the stored settings for each service, the same on every node. A word about a device
    /// counts under the settings under which it came (rule: gone-by-generation).
    public var settings: [Transport.Kind: UInt64] = [:]

    public init() {}

    public var isEmpty: Bool { !web && apps.isEmpty && !fcm }

    /// The same token in Apple's other environment, where the operator allows to try it and the project has a
    /// key for that.
    public func otherEnvironment(of transport: Transport) -> Transport? {
        guard triesOtherEnvironment, transport.kind == .apns,
            var address = APNsAddress(packed: transport.address)
        else { return nil }
        address.isSandbox.toggle()
        var other = transport
        other.address = address.packed
        return serves(other) ? other : nil
    }

    /// Whether the project has a service that may reach the address.
    public func serves(_ transport: Transport) -> Bool {
        switch transport.kind {
        case .web: web
        case .apns: APNsAddress.app(ofPacked: transport.address).map { apps.contains(Array($0)) } ?? false
        case .fcm: fcm
        }
    }
}
