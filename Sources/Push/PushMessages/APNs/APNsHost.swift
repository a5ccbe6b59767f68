/// A host of Apple's push service, or one that the operator sets in its place.
public struct APNsHost: Hashable, Sendable {
    public static let production = APNsHost("api.push.apple.com", 443)
    public static let sandbox = APNsHost("api.sandbox.push.apple.com", 443)

    /// A name or an address, without brackets.
    public let host: String
    public let port: Int

    private init(_ host: String, _ port: Int) {
        self.host = host
        self.port = port
    }

    /// Reads `HOST` or `HOST:PORT`; the port is 443 if none is given. `nil` if the text is neither.
    public init?(_ text: String) {
        guard let authority = try? Authority(text) else { return nil }
        self.init(authority.host.text, authority.port ?? PushEndpoint.portDefault)
    }

    public var text: String {
        let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
        return "\(name):\(port)"
    }
}
