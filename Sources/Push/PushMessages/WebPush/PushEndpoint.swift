/// Why the URL of a subscription is refused.
public enum PushEndpointError: Error, Hashable, Sendable, CustomStringConvertible {
    case tooLong(bytes: Int)
    /// A byte outside printable ASCII, or a backslash.
    case characters
    case scheme
    case userInformation
    case fragment
    /// Neither a DNS name nor an address that the operator lists.
    case host
    case port
    /// The policy has neither the host nor the port.
    case notAllowed(host: String, port: Int)

    public var description: String {
        switch self {
        case .tooLong(let bytes):
            "The endpoint has \(bytes) bytes, at most \(PushEndpoint.bytesMax) are allowed."
        case .characters: "The endpoint must have only printable ASCII characters, and no backslash."
        case .scheme: "The endpoint must begin with https://."
        case .userInformation: "The endpoint must have no user information."
        case .fragment: "The endpoint must have no fragment."
        case .host: "The endpoint's host must be a DNS name."
        case .port: "The endpoint's port must be a number from 1 to 65535."
        case .notAllowed(let host, let port):
            "The server does not push to \(host), port \(port). The server's operator can allow the host."
        }
    }
}

/// The URL to which a subscription's messages go (RFC 8030 §5), checked. The URL comes from a client, so that
/// without a check a client could make the server call hosts of the server's own network.
///
/// The path is a capability: anybody who knows it can send. Log the origin only.
public struct PushEndpoint: Hashable, Sendable {
    public static let bytesMax = 2048
    static let portDefault = 443

    /// In lower case. A listed IPv6 address has no brackets here.
    public let host: String
    public let port: Int
    /// Begins with a slash. With the query.
    public let path: String

    /// Scheme, host and, if the port is not 443, the port (RFC 6454 §6.2): `aud` of VAPID, and the key of a
    /// pool of connections. For example `https://push.example:8443`.
    public var origin: String {
        let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
        return port == PushEndpoint.portDefault ? "https://\(name)" : "https://\(name):\(port)"
    }
    public var url: String { origin + path }

    /// Reads the URL `text`, and checks that `policy` allows its host and port.
    public static func parse(
        _ text: String, policy: EndpointPolicy
    ) throws(PushEndpointError) -> PushEndpoint {
        try parse(text) { policy.allows($0, port: $1) }
    }

    /// Reads a URL that the operator has set: of any host and port.
    public static func parse(operators text: String) throws(PushEndpointError) -> PushEndpoint {
        try parse(text) { _, _ in true }
    }

    private static func parse(
        _ text: String, allows: (PushHost, Int) -> Bool
    ) throws(PushEndpointError) -> PushEndpoint {
        let bytes = Array(text.utf8)
        guard bytes.count <= bytesMax else { throw .tooLong(bytes: bytes.count) }
        guard bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\\") }) else {
            throw .characters
        }
        let scheme = "https://"
        guard text.prefix(scheme.count).lowercased() == scheme else { throw .scheme }
        guard !bytes.contains(UInt8(ascii: "#")) else { throw .fragment }
        let rest = bytes[scheme.utf8.count...]
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
        guard !rest[..<end].contains(UInt8(ascii: "@")) else { throw .userInformation }
        let authority = try Authority(String(decoding: rest[..<end], as: UTF8.self))
        let port = authority.port ?? portDefault
        guard allows(authority.host, port) else {
            // An address says nothing to a client that a sentence about names would not say better.
            if authority.host.isAddress { throw .host }
            throw .notAllowed(host: authority.host.text, port: port)
        }
        var path = String(decoding: rest[end...], as: UTF8.self)
        if !path.hasPrefix("/") { path = "/" + path }
        return PushEndpoint(host: authority.host.text, port: port, path: path)
    }
}
