import Model
import PushMessages

/// Why a message cannot go to a push service.
public enum PushContentError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The stored event is not what `MessageReader` writes.
    case malformed(String)
    /// The text for the service would be longer than the service takes.
    case tooLarge(bytes: Int, limit: Int)
    /// A key of the message's data is reserved at the service.
    case reservedKey(String)

    public var description: String {
        switch self {
        case .malformed(let reason): "the stored message cannot be read: \(reason)"
        case .tooLarge(let bytes, let limit): "the message has \(bytes) bytes, at most \(limit) are allowed"
        case .reservedKey(let key): "the key \"\(key)\" in data is reserved"
        }
    }
}

/// Makes what push services get from a message's event, the JSON that `MessageReader` wrote and that streams
/// show.
///
/// The result is the same for all devices, unless a parameter names the device. So the sender makes the
/// result once for each message. Confined to one loop.
public final class PushComposer {
    /// FCM's time to live of a message without one: four weeks.
    static let ttlSecondsDefault = Int(MessageLimits.ttlSecondsMax)

    private let parser = JSONParser()
    public init() {}

    func read(_ event: [UInt8]) throws(PushContentError) -> Event {
        let value: JSONValue
        do {
            value = try parser.parse(event)
        } catch {
            throw .malformed(error.reason)
        }
        return try Event(value)
    }

    /// The fields of an event. Valid until the next parse.
    struct Event {
        let value: JSONValue
        let id: JSONValue
        let from: JSONValue
        /// Milliseconds since 1970.
        let sent: Int64
        let data: JSONValue?
        let notification: JSONValue?
        let collapseKey: JSONValue?
        let options: JSONValue?

        init(_ value: JSONValue) throws(PushContentError) {
            guard value.kind == .object else { throw .malformed("no object") }
            guard let id = value["messageId"], let text = id.string, WebPushMessage.isTopic(text),
                let from = value["from"], from.kind == .string, let sent = value["sentTime"]?.integer
            else { throw .malformed("messageId, from or sentTime is missing or wrong") }
            self.value = value
            self.id = id
            self.from = from
            self.sent = sent
            data = value["data"]?.ifObject
            notification = value["notification"]?.ifObject
            collapseKey = value["collapseKey"]
            options = value["fcmOptions"]?.ifObject
        }

        /// Writes `from` as FCM does: the topic, or the number of the project.
        func writeFrom(_ project: ProjectNumber, to out: inout JSONWriter) {
            out.key("from")
            if let text = from.string, text.starts(with: "/topics/".utf8) {
                out.string(text)
            } else {
                out.string("\(project.rawValue)")
            }
        }

        func label(of block: JSONValue?) -> JSONValue? {
            block?["fcmOptions"]?["analyticsLabel"] ?? options?["analyticsLabel"]
        }
    }
}

extension JSONValue {
    /// The value of an object's field; `nil` if there is none, or this is no object.
    subscript(name: StaticString) -> JSONValue? {
        var found: JSONValue?
        let look = { (field: Bytes, value: JSONValue) in if Schema.equal(field, name) { found = value } }
        try? forEachField { (field, value) throws(APIError) in look(field, value) }
        return found
    }

    var ifObject: JSONValue? { kind == .object ? self : nil }

    /// The fields of an object, each name once; none if this is no object.
    func fields(except names: [StaticString]) -> [(name: Bytes, value: JSONValue)] {
        uniqueFields().filter { field in !names.contains { Schema.equal(field.name, $0) } }
    }

    /// The value of a header in a map of headers. Names have no case (RFC 9110 §5.1); `name` is in lower
    /// case.
    func header(_ name: StaticString) -> String? {
        var found: String?
        for field in uniqueFields() where Platforms.isHeader(field.name, name) { found = field.value.text }
        return found
    }
}

extension JSONWriter {
    mutating func write(_ fields: [(name: Bytes, value: JSONValue)]) {
        for field in fields {
            key(field.name)
            value(field.value)
        }
    }
}
