/// The push services of one project: those for which the project has settings, and which are on.
///
/// The control side passes it to the partitions, which choose a device's transport by it.
public struct PushServices: Hashable, Sendable {
    public var web = false
    /// The apps with a key at Apple's push service, as packed addresses name an app (`APNsAddress.app`).
    public var apps: Set<[UInt8]> = []
    public var fcm = false
    /// A checksum of the stored settings for each service, the same on every node. A word about a device
    /// counts under the settings under which it came (rule: gone-by-generation).
    public var settings: [Transport.Kind: UInt64] = [:]

    public init() {}

    /// Whether the project has a service that may reach the address.
    public func serves(_ transport: Transport) -> Bool {
        switch transport.kind {
        case .web: web
        case .apns: APNsAddress.app(ofPacked: transport.address).map { apps.contains(Array($0)) } ?? false
        case .fcm: fcm
        }
    }
}
