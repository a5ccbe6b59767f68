import Credentials
import Model
import PushMessages
import RegistrationIDs

// The messages of Mozilla's push protocol (autopush), JSON objects in frames of text.

/// A message of a user agent.
enum PushServiceMessage: Hashable {
    case hello(UserAgent)
    case register(ChannelID, key: SenderKey)
    /// A registration whose channel is no UUID. The server cannot name the channel in its answer.
    case invalid
    case unregister(ChannelID)
    case acknowledge([Update])
    /// The user agent decrypted a message, and the page's worker could not be given it.
    case complaint
    case ping
    /// A message about which this server does nothing, such as `broadcast_subscribe`.
    case ignored

    /// Who a user agent says that it is.
    enum UserAgent: Hashable {
        /// New, or unknown to this cluster.
        case new
        case known(Registration, DeviceMAC, text: [UInt8])
        /// The node's keys may be too old to decide.
        case unclear
    }

    /// The key to which a registration restricts senders.
    enum SenderKey: Hashable {
        case none
        case hash([UInt8])
        case malformed
    }

    /// What became of one notification.
    struct Update: Hashable {
        var event: EventID?
        var code: Int64
    }

    /// Updates of one message. Firefox sends one, and Sunup as well.
    static let updatesMax = 256
}

extension PushServiceMessage {
    /// `nil` if the text is no message of the protocol.
    static func read(_ text: [UInt8], _ api: API, in project: ProjectNumber) -> PushServiceMessage? {
        guard let object = try? api.parser.parse(text), object.kind == .object else { return nil }
        var fields = Fields()
        try? object.forEachUniqueField { (name, value) throws(APIError) in fields.take(name, value) }
        guard let kind = fields.kind else { return fields.isEmpty ? .ping : nil }
        switch String(decoding: kind, as: UTF8.self) {
        case "hello": return .hello(api.userAgent(fields.uaid ?? [], in: project))
        case "register":
            guard let channel = fields.channel.flatMap({ ChannelID($0) }) else { return .invalid }
            return .register(channel, key: senderKey(fields.key))
        case "unregister": return fields.channel.flatMap { ChannelID($0) }.map { .unregister($0) }
        case "ack": return fields.updates.map { .acknowledge($0) }
        case "nack": return .complaint
        case "ping": return .ping
        default: return .ignored
        }
    }

    private struct Fields {
        var isEmpty = true
        var kind: [UInt8]?
        var uaid: [UInt8]?
        var channel: [UInt8]?
        var key: [UInt8]?
        var updates: [Update]?

        mutating func take(_ name: Bytes, _ value: JSONValue) {
            isEmpty = false
            if Schema.equal(name, "messageType") {
                kind = value.string.map { Array($0) } ?? []
            } else if Schema.equal(name, "uaid") {
                uaid = value.string.map { Array($0) }
            } else if Schema.equal(name, "channelID") {
                channel = value.string.map { Array($0) }
            } else if Schema.equal(name, "key") {
                // `null` says that there is none.
                key = value.kind == .null ? nil : value.string.map { Array($0) } ?? []
            } else if Schema.equal(name, "updates") {
                updates = Fields.updates(value)
            }
        }

        private static func updates(_ value: JSONValue) -> [Update]? {
            guard value.kind == .array else { return nil }
            let elements = value.elements
            guard elements.count <= updatesMax else { return nil }
            return elements.map { element in
                var update = Update(event: nil, code: 100)
                try? element.forEachUniqueField { (name, value) throws(APIError) in
                    if Schema.equal(name, "version") {
                        update.event = value.string.flatMap { EventID($0) }
                    } else if Schema.equal(name, "code") {
                        update.code = value.integer ?? 100
                    }
                }
                return update
            }
        }
    }

    /// The key of `register`: base64url of an uncompressed point on P-256, perhaps with padding.
    private static func senderKey(_ text: [UInt8]?) -> SenderKey {
        guard let text else { return .none }
        var digits = text[...]
        while digits.last == UInt8(ascii: "=") { digits.removeLast() }
        guard let bytes = Base64URL.decode(digits), ES256.isKey(bytes) else { return .malformed }
        return .hash(Crypto.sha256(bytes))
    }
}

extension API {
    /// Characters of a `uaid`: a FID and a credential. Firefox takes 128 at most.
    static let userAgentLength = RegistrationKeys.fidLength + RegistrationKeys.credentialLength

    func userAgent(_ text: [UInt8], in project: ProjectNumber) -> PushServiceMessage.UserAgent {
        guard text.count == API.userAgentLength,
            let proof = keys.parseProof(text[RegistrationKeys.fidLength...])
        else { return .new }
        switch keys.decipher(text[..<RegistrationKeys.fidLength]) {
        case .success(let device):
            guard device.project == project, Int(device.partition.rawValue) < settings.partitionCount else {
                return .new
            }
            return .known(device, proof, text: text)
        case .failure(.unknownKey): return areKeysCurrent() ? .new : .unclear
        case .failure: return .new
        }
    }
}
