/// Which push services the server calls.
///
/// The services of Google, Mozilla, Apple and Microsoft are always allowed. The operator lists others:
///
/// | entry | allows |
/// | --- | --- |
/// | `push.example.com` | the name, port 443 |
/// | `push.example.com:8443` | the name, that port |
/// | `*.example.com` (`:PORT`) | each name below, not `example.com` itself |
/// | `10.1.2.3:8443`, `[fd00::1]:8443` | the address, that port |
/// | `*` | each public name, port 443 |
public struct EndpointPolicy: Sendable {
    private struct Entry: Hashable {
        /// With the dot at its beginning if the entry is for the names below.
        var host: String
        var port: Int

        func matches(_ host: String, port: Int) -> Bool {
            self.port == port && (self.host.hasPrefix(".") ? host.hasSuffix(self.host) : host == self.host)
        }
        func isExactly(_ host: String, port: Int) -> Bool { self.port == port && self.host == host }
    }

    /// The services of Google, Mozilla, Apple and Microsoft; a dot at the beginning means the names below.
    public static let vendorDomains = [
        "fcm.googleapis.com", "android.googleapis.com", ".push.services.mozilla.com", ".push.apple.com",
        ".notify.windows.com",
    ]
    private static let vendors = vendorDomains.map { Entry(host: $0, port: PushEndpoint.portDefault) }
    private static let any = "*"

    private let entries: [Entry]
    private let isOpen: Bool

    /// Entries that `check(listed:)` refuses allow nothing.
    public init(listed: [String]) {
        isOpen = listed.contains(EndpointPolicy.any)
        entries = listed.compactMap { try? EndpointPolicy.entry($0) }
    }

    /// Allows one endpoint that the operator has set, wherever its name leads.
    public init(trusting endpoint: PushEndpoint) {
        isOpen = false
        entries = [Entry(host: endpoint.host, port: endpoint.port)]
    }

    /// Why the server does not take the entry of a setting; `nil` if it does.
    public static func check(listed text: String) -> String? {
        if text == any { return nil }
        do {
            _ = try entry(text)
            return nil
        } catch .port {
            return "\"\(text)\": the port must be a number from 1 to 65535, and an address needs one."
        } catch {
            return "\"\(text)\" is no HOST, HOST:PORT, *.HOST or *.HOST:PORT."
        }
    }

    private static func entry(_ text: String) throws(PushEndpointError) -> Entry {
        let isBelow = text.hasPrefix("*.")
        let authority = try Authority(isBelow ? String(text.dropFirst(2)) : text)
        if authority.host.isAddress {
            guard !isBelow else { throw .host }
            guard authority.port != nil else { throw .port }
        }
        return Entry(
            host: (isBelow ? "." : "") + authority.host.text,
            port: authority.port ?? PushEndpoint.portDefault)
    }

    func allows(_ host: PushHost, port: Int) -> Bool {
        if isListed(host.text, port: port) { return true }
        guard case .name(let name) = host else { return false }
        if EndpointPolicy.vendors.contains(where: { $0.matches(name.text, port: port) }) { return true }
        return isOpen && port == PushEndpoint.portDefault && name.labels.count > 1
    }

    private func isListed(_ host: String, port: Int) -> Bool {
        entries.contains { $0.matches(host, port: port) }
    }

    /// Whether the sender may connect to `address`, 4 or 16 bytes that the endpoint's name resolved to. The
    /// sender must ask for the very address it connects to: a name can resolve to another one each time.
    ///
    /// Only public addresses are allowed, unless the operator lists the endpoint's very host and port: below
    /// a listed domain strangers may make names that lead into the operator's network.
    public func mayDial(_ address: [UInt8], for endpoint: PushEndpoint) -> Bool {
        if entries.contains(where: { $0.isExactly(endpoint.host, port: endpoint.port) }) {
            return address.count == 4 || address.count == 16
        }
        return PublicAddress.isPublic(address)
    }
}
