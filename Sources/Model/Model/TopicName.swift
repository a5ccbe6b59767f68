/// A topic's name: `[a-zA-Z0-9-_.~%]{1,900}`, case-sensitive.
///
/// Source: FCM v1 discovery document, `TopicSubscription.topicName`.
public struct TopicName: Hashable, Sendable, CustomStringConvertible {
    public static let lengthMax = 900
    /// The name's bytes, all of them ASCII.
    public let utf8: [UInt8]

    /// Checks `bytes`; a leading `/topics/` is tolerated and dropped: `/topics/news` is the topic `news`.
    /// `nil` if the rest is no topic name.
    public init?(_ bytes: UnsafeBufferPointer<UInt8>) {
        var rest = bytes
        let prefix: StaticString = "/topics/"
        let length = prefix.utf8CodeUnitCount
        if bytes.count >= length, (0..<length).allSatisfy({ bytes[$0] == prefix.utf8Start[$0] }) {
            rest = UnsafeBufferPointer(rebasing: bytes[length...])
        }
        guard !rest.isEmpty, rest.count <= TopicName.lengthMax else { return nil }
        for byte in rest where !TopicName.allows(byte) { return nil }
        utf8 = Array(rest)
    }

    public init?(_ bytes: [UInt8]) {
        guard let name = bytes.withUnsafeBufferPointer({ TopicName($0) }) else { return nil }
        self = name
    }

    public init?(_ bytes: ArraySlice<UInt8>) {
        guard let name = bytes.withUnsafeBufferPointer({ TopicName($0) }) else { return nil }
        self = name
    }

    public init?(_ text: String) { self.init(Array(text.utf8)) }

    /// For names that were checked before they were stored.
    public init(checked utf8: [UInt8]) { self.utf8 = utf8 }

    public var description: String { String(decoding: utf8, as: UTF8.self) }

    @inline(__always)
    public static func allows(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
            UInt8(ascii: "~"), UInt8(ascii: "%"):
            return true
        default:
            return false
        }
    }
}

/// The order of the names' bytes. Clients choose the names, and a device may have 2,000 of 900 bytes that
/// begin alike. With one byte at a time a sort of such names holds its loop for 20 ms, so eight bytes are
/// compared at once.
extension TopicName: Comparable {
    public static func < (left: TopicName, right: TopicName) -> Bool {
        left.utf8.withUnsafeBytes { one in
            right.utf8.withUnsafeBytes { other in
                let count = min(one.count, other.count)
                var at = 0
                while at + 8 <= count {
                    let first = one.loadUnaligned(fromByteOffset: at, as: UInt64.self)
                    let second = other.loadUnaligned(fromByteOffset: at, as: UInt64.self)
                    if first != second { return first.bigEndian < second.bigEndian }
                    at += 8
                }
                while at < count {
                    if one[at] != other[at] { return one[at] < other[at] }
                    at += 1
                }
                return one.count < other.count
            }
        }
    }
}
