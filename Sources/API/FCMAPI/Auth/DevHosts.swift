import HTTPMessages

import var Glibc.AF_INET
import func Glibc.inet_pton

/// The requests that a development server answers. Anybody may do anything there, so a web page that a
/// developer opens must not reach the server. A page can let its own name resolve to this machine (DNS
/// rebinding): `Host` then has that name. Or it can ask from its own origin, which `Origin` has.
public struct DevHosts: Sendable {
    /// Google's host names. SDKs ask for them, and a test makes them resolve to this server for the SDK's
    /// process.
    public static let google: Set<String> = [
        "fcm.googleapis.com", "iid.googleapis.com", "oauth2.googleapis.com", "www.googleapis.com",
        "accounts.google.com", "fcmregistrations.googleapis.com", "firebaseinstallations.googleapis.com",
        "fcmtoken.googleapis.com", "device-provisioning.googleapis.com",
    ]

    private let names: Set<String>
    /// Whether any IP address is accepted in `Host`: DNS rebinding needs a name.
    private let takesAddresses: Bool

    public init(names: some Sequence<String>, takesAddresses: Bool = false) {
        self.names = DevHosts.google.union(names.compactMap { DevHosts.host(Array($0.utf8)[...]) })
        self.takesAddresses = takesAddresses
    }

    /// Why the server does not answer the request; `nil` if it does.
    func refusal(of request: HTTPRequest) -> APIError? {
        if !request.authority.isEmpty {
            guard let host = DevHosts.host(request.authority[...]), isKnown(host) || isAddress(host) else {
                return refusal("host", request.authority[...])
            }
        }
        guard let origin = request.fields["origin"], !isKnown(origin: origin, request.authority) else {
            return nil
        }
        return refusal("origin", origin)
    }

    private func refusal(_ what: String, _ said: ArraySlice<UInt8>) -> APIError {
        APIError(
            status: .permissionDenied,
            message: "This is a development server, and does not know the \(what) \""
                + "\(String(decoding: said.prefix(200), as: UTF8.self))\": a web page could be asking."
                + " If the name is yours, start the server with --dev-host and the name.")
    }

    private func isKnown(_ host: String) -> Bool { DevHosts.isLoopback(host) || names.contains(host) }

    private func isAddress(_ host: String) -> Bool {
        takesAddresses && (host.hasPrefix("[") || DevHosts.isIPv4(host))
    }

    /// Whether the origin is this machine, a known name, or the address under which the request reached this
    /// server.
    private func isKnown(origin: ArraySlice<UInt8>, _ authority: [UInt8]) -> Bool {
        for scheme in ["http://", "https://"] where origin.starts(with: scheme.utf8) {
            let rest = origin.dropFirst(scheme.utf8.count)
            guard let host = DevHosts.host(rest) else { return false }
            return isKnown(host) || (isAddress(host) && rest.elementsEqual(authority))
        }
        return false
    }

    /// The host of `HOST[:PORT]`, in lower case and without a final dot; an IPv6 address in its brackets.
    private static func host(_ authority: ArraySlice<UInt8>) -> String? {
        var host = authority
        if host.first == UInt8(ascii: "[") {
            guard let end = host.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            host = host[...end]
        } else if let colon = host.firstIndex(of: UInt8(ascii: ":")) {
            host = host[..<colon]
            if host.last == UInt8(ascii: ".") { host.removeLast() }
        } else if host.last == UInt8(ascii: ".") {
            host.removeLast()
        }
        return host.isEmpty ? nil : String(decoding: host, as: UTF8.self).lowercased()
    }

    private static func isLoopback(_ host: String) -> Bool {
        host == "localhost" || host.hasSuffix(".localhost") || host == "[::1]"
            || (host.hasPrefix("127.") && isIPv4(host))
    }

    private static func isIPv4(_ host: String) -> Bool {
        var address: UInt32 = 0
        // C would read only what stands before a zero byte.
        return !host.utf8.contains(0) && inet_pton(AF_INET, host, &address) == 1
    }
}
