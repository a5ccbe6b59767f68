import HTTPMessages
import Model

/// The demands of RFC 9113 §8.2–8.3 on a request's header block, checked field by field while it is read.
///
/// libnghttp2 has these checks too, but it would refuse one SDK's `:scheme` (`https:`), and its checks can
/// only be switched off together.
struct RequestHead {
    /// `IncomingRequest` counts bytes and fields, for the limits.
    var bytes = 0
    var fields = 0
    var isTooLarge = false
    private var isMalformed = false
    private var hasMethod = false
    private var hasScheme = false
    private var hasPath = false
    private var hasAuthority = false
    private var sawRegular = false
    private(set) var contentLength: Int?

    /// Takes one field. Returns false if the request is malformed, and remembers that.
    mutating func addField(
        _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, isTrailer: Bool,
        into request: HTTPRequest
    ) -> Bool {
        let isGood = check(name, value, isTrailer: isTrailer, request: request)
        if !isGood { isMalformed = true }
        return isGood
    }

    /// Whether the block has all that a request needs.
    var isComplete: Bool { !isMalformed && !isTooLarge && hasMethod && hasScheme && hasPath }

    private mutating func check(
        _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, isTrailer: Bool,
        request: HTTPRequest
    ) -> Bool {
        guard RequestHead.isValue(value) else { return false }
        if name.first == UInt8(ascii: ":") {
            guard !sawRegular, !isTrailer else { return false }
            return pseudo(name, value, request: request)
        }
        guard RequestHead.isName(name), !RequestHead.isConnectionSpecific(name) else { return false }
        sawRegular = true
        if RequestHead.equal(name, "te"), !RequestHead.equal(value, "trailers") { return false }
        if RequestHead.equal(name, "content-length") {
            guard let length = RequestHead.number(value), contentLength == nil || contentLength == length
            else {
                return false
            }
            contentLength = length
        }
        if RequestHead.equal(name, "host"), !hasAuthority { request.authority.replace(with: value) }
        if !isTrailer { request.fields.append(name: name, value: value) }
        return true
    }

    private mutating func pseudo(
        _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, request: HTTPRequest
    ) -> Bool {
        if RequestHead.equal(name, ":method") {
            guard !hasMethod, !value.isEmpty, let method = RequestHead.method(value) else { return false }
            hasMethod = true
            request.method = method
        } else if RequestHead.equal(name, ":path") {
            guard !hasPath, RequestHead.isPath(value) else {
                return false
            }
            hasPath = true
            request.target.replace(with: value)
        } else if RequestHead.equal(name, ":scheme") {
            guard !hasScheme, !value.isEmpty else { return false }
            hasScheme = true
        } else if RequestHead.equal(name, ":authority") {
            guard !hasAuthority, !value.contains(UInt8(ascii: "@")) else { return false }
            hasAuthority = true
            request.authority.replace(with: value)
        } else {
            return false
        }
        return true
    }

    static func method(_ value: UnsafeBufferPointer<UInt8>) -> HTTPMethod? {
        if equal(value, "POST") { return .post }
        if equal(value, "GET") { return .get }
        if equal(value, "DELETE") { return .delete }
        if equal(value, "PATCH") { return .patch }
        if equal(value, "PUT") { return .put }
        if equal(value, "HEAD") { return .head }
        if equal(value, "OPTIONS") { return .options }
        guard value.count <= 32, isToken(value) else { return nil }
        return .other(String(decoding: value, as: UTF8.self))
    }

    /// A field name: lower-case token characters (RFC 9110 §5.1, RFC 9113 §8.2).
    private static func isName(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        !name.isEmpty && areAll(name, RequestHead.lowerTokens)
    }

    private static func isToken(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        !bytes.isEmpty && areAll(bytes, RequestHead.lowerTokens | RequestHead.upperLetters)
    }

    /// Token characters below 64, a bit each: `!#$%&'*+-.` and the digits.
    private static let lowTokens: UInt64 = 0x03FF_6CFA_0000_0000
    /// Token characters from 64 on, without capital letters: ``^_`|~`` and the small letters.
    private static let lowerTokens: UInt64 = 0x57FF_FFFF_C000_0000
    private static let upperLetters: UInt64 = 0x0000_0000_07FF_FFFE

    @inline(__always)
    private static func areAll(_ bytes: UnsafeBufferPointer<UInt8>, _ high: UInt64) -> Bool {
        for byte in bytes {
            let set = byte < 64 ? lowTokens : byte < 128 ? high : 0
            if set >> UInt64(byte & 63) & 1 == 0 { return false }
        }
        return true
    }

    /// No NUL, CR or LF, no blank at either end (RFC 9113 §8.2.1).
    private static func isValue(_ value: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let first = value.first, let last = value.last else { return true }
        if first == 0x20 || first == 0x09 || last == 0x20 || last == 0x09 { return false }
        let good = value.prefixCount(
            where: { $0 != 0 && $0 != 0x0A && $0 != 0x0D },
            failsIn: { $0.below(1) | $0.equal(to: 0x0A) | $0.equal(to: 0x0D) })
        return good == value.count
    }

    /// Whether the path begins with a slash, or is one asterisk, and has no blank.
    private static func isPath(_ value: UnsafeBufferPointer<UInt8>) -> Bool {
        guard value.first == UInt8(ascii: "/") || equal(value, "*") else { return false }
        let good = value.prefixCount(
            where: { $0 > 0x20 && $0 != 0x7F }, failsIn: { $0.below(0x21) | $0.equal(to: 0x7F) })
        return good == value.count
    }

    private static func isConnectionSpecific(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        equal(name, "connection") || equal(name, "transfer-encoding") || equal(name, "keep-alive")
            || equal(name, "upgrade") || equal(name, "proxy-connection")
    }

    static func number(_ value: UnsafeBufferPointer<UInt8>) -> Int? {
        guard !value.isEmpty, value.count <= 18 else { return nil }
        var number = 0
        for byte in value {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            number = number * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return number
    }

    @inline(__always)
    static func equal(_ bytes: UnsafeBufferPointer<UInt8>, _ text: StaticString) -> Bool {
        guard bytes.count == text.utf8CodeUnitCount else { return false }
        for index in 0..<bytes.count where bytes[index] != text.utf8Start[index] { return false }
        return true
    }
}

extension [UInt8] {
    /// Replaces the bytes, and keeps the memory.
    fileprivate mutating func replace(with bytes: UnsafeBufferPointer<UInt8>) {
        removeAll(keepingCapacity: true)
        append(contentsOf: bytes)
    }
}
