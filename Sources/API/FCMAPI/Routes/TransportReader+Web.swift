import Credentials
import Model
import PushMessages

// `{"web": {"endpoint", "p256dh", "auth", "applicationPubKey", "origin"}}`: a subscription as a browser's
// `PushSubscription` has it (Push API §8), and the key for which the page has created it.

extension TransportReader {
    private struct WebBlock {
        var endpoint: String?
        var p256dh: [UInt8]?
        var auth: [UInt8]?
        var key: [UInt8]?
    }

    func web(_ block: JSONValue) throws(APIError) -> Transport? {
        if block.kind == .null { return nil }
        guard let project else {
            throw .invalid(
                "web", "The project has no key for Web Push, so that the server cannot push to browsers.")
        }
        guard project.isOn else {
            throw .invalid("web", "Web Push is off in this project, so that the server does not push to it.")
        }
        let fields = try read(web: block)
        guard let endpoint = fields.endpoint else { throw .missing("web.endpoint") }
        guard let p256dh = fields.p256dh else { throw .missing("web.p256dh") }
        guard let auth = fields.auth else { throw .missing("web.auth") }
        let checked: PushEndpoint
        do throws(PushEndpointError) {
            checked = try PushEndpoint.parse(endpoint, policy: project.policy)
        } catch { throw .invalid("web.endpoint", error.description) }
        do throws(PushCryptoError) { _ = try WebPushKeys(p256dh: p256dh, auth: auth) } catch {
            throw TransportReader.refused(error)
        }
        // Another client that names no key has asked the server for the key.
        guard fields.key != nil || !isFromWebSDK, let key = project.key(fields.key) else {
            throw .invalid(
                "web.application_pub_key",
                "The subscription is for a key that is not this project's. Pass vapidKey: "
                    + project.newest.text)
        }
        let address = WebAddress(keyID: key.id, p256dh: p256dh, auth: auth, endpoint: checked.url)
        guard address.endpoint.utf8.count <= WebAddress.endpointBytesMax else {
            throw .invalid(
                "web.endpoint", "The endpoint has more than \(WebAddress.endpointBytesMax) bytes.")
        }
        return Transport(kind: .web, address: address.packed)
    }

    private func read(web block: JSONValue) throws(APIError) -> WebBlock {
        guard block.kind == .object else { throw .type("web", "OBJECT", value: block) }
        var found = WebBlock()
        try block.forEachUniqueField { (name, value) throws(APIError) in
            if Schema.equal(name, "endpoint") {
                found.endpoint = try value.text(of: "web.endpoint")
            } else if Schema.equal(name, "p256dh") {
                found.p256dh = try bytes(value, "web.p256dh")
            } else if Schema.equal(name, "auth") {
                found.auth = try bytes(value, "web.auth")
            } else if Schema.equal(name, "application_pub_key") || Schema.equal(name, "applicationPubKey") {
                if value.kind != .null { found.key = try bytes(value, "web.application_pub_key") }
            } else if Schema.equal(name, "origin") {
                // The page's host. Only the type counts: the server has no use for the text.
                _ = try value.text(of: "web.origin")
            }
        }
        return found
    }

    /// Base64url (RFC 4648 §5), with padding or without.
    private func bytes(_ value: JSONValue, _ field: String) throws(APIError) -> [UInt8] {
        var digits = Array(try value.text(of: field).utf8)
        var padding = 0
        while padding < 2, digits.last == UInt8(ascii: "=") {
            digits.removeLast()
            padding += 1
        }
        guard let bytes = Base64URL.decode(digits) else {
            throw .invalid(field, "The value must be base64url.")
        }
        return bytes
    }

    private static func refused(_ error: PushCryptoError) -> APIError {
        switch error {
        case .p256dh(let reason): .invalid("web.p256dh", "The public key is refused: \(reason).")
        case .auth(let reason): .invalid("web.auth", "The secret is refused: \(reason).")
        default: .invalid("web", "\(error).")
        }
    }
}

extension WebPushProject {
    /// The project's key with these bytes; the newest for `nil`.
    fileprivate func key(_ publicBytes: [UInt8]?) -> Key? {
        guard let publicBytes else { return newest }
        return keys.first { $0.publicBytes == publicBytes }
    }
}

extension APIError {
    fileprivate static func missing(_ field: String) -> APIError {
        .invalid(field, "The subscription has no \(field.split(separator: ".").last ?? "").")
    }
}
