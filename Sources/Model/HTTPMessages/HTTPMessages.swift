// HTTP requests and responses as plain values, the same for HTTP/1.1 and HTTP/2. The edge carries them; the
// API reads requests and creates responses. Header field names are stored in lower case.

public enum HTTPMethod: Hashable, Sendable {
    case get, head, post, put, patch, delete, options
    case other(String)
}

/// Header fields (and trailers) in one buffer: a name and a value are ranges in it.
public struct HTTPFields: Sendable {
    public struct Field: Sendable {
        public var name: Range<Int>
        public var value: Range<Int>
    }
    public private(set) var bytes: [UInt8] = []
    public private(set) var fields: [Field] = []

    public init() {}

    /// Makes room for the fields of a usual request at once, so that the buffer does not grow field by field.
    public mutating func reserve() {
        bytes.reserveCapacity(384)
        fields.reserveCapacity(12)
    }

    /// Makes room for fields whose names and values have so many bytes, and no more: an array that grows
    /// takes up to twice as much.
    public mutating func reserve(bytes: Int, fields: Int) {
        self.bytes.reserveCapacity(bytes)
        self.fields.reserveCapacity(fields)
    }

    /// `name` must already be in lower case.
    public mutating func append(name: some Collection<UInt8>, value: some Collection<UInt8>) {
        let start = bytes.count
        bytes.append(contentsOf: name)
        let middle = bytes.count
        bytes.append(contentsOf: value)
        fields.append(Field(name: start..<middle, value: middle..<bytes.count))
    }

    /// The same from borrowed memory: copies the bytes.
    public mutating func append(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        let start = bytes.count
        let middle = start + name.count
        bytes.append(contentsOf: name)
        bytes.append(contentsOf: value)
        fields.append(Field(name: start..<middle, value: middle..<bytes.count))
    }

    /// The first value under `name` (lower case), as it was sent.
    public subscript(name: StaticString) -> ArraySlice<UInt8>? {
        for field in fields where matches(field, name) { return bytes[field.value] }
        return nil
    }

    /// The last value under `name`.
    public func last(_ name: StaticString) -> ArraySlice<UInt8>? {
        for field in fields.reversed() where matches(field, name) { return bytes[field.value] }
        return nil
    }

    /// How many fields have this name.
    public func count(of name: StaticString) -> Int {
        fields.reduce(0) { $0 + (matches($1, name) ? 1 : 0) }
    }

    public func string(_ name: StaticString) -> String? {
        self[name].map { String(decoding: $0, as: UTF8.self) }
    }

    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        fields.removeAll(keepingCapacity: true)
    }

    private func matches(_ field: Field, _ name: StaticString) -> Bool {
        guard field.name.count == name.utf8CodeUnitCount else { return false }
        return bytes.withUnsafeBufferPointer { buffer in
            for offset in 0..<field.name.count
            where buffer[field.name.lowerBound + offset] != name.utf8Start[offset] { return false }
            return true
        }
    }
}

/// A whole request: the edge hands it over when the last byte of its body has come. A request stays on its
/// event loop, and nobody changes it after the handover.
///
/// An object, because all layers of the API pass it on, and because the edge reads the next request into it
/// if nobody has kept it.
open class HTTPRequest {
    public final var method: HTTPMethod
    /// Path and query as they were sent (origin form), percent-encoding untouched.
    public final var target: [UInt8]
    /// `Host` or `:authority`; empty if the client sent none.
    public final var authority: [UInt8]
    public final var fields: HTTPFields
    public final var body: [UInt8]
    /// Whether the request came over TLS.
    public final var isSecure: Bool
    /// The address of the connection's peer; `nil` if the socket is a local one.
    public final var client: ClientAddress?

    public init(
        method: HTTPMethod, target: [UInt8], authority: [UInt8] = [], fields: HTTPFields = HTTPFields(),
        body: [UInt8] = [], isSecure: Bool = false, client: ClientAddress? = nil
    ) {
        self.method = method
        self.target = target
        self.authority = authority
        self.fields = fields
        self.body = body
        self.isSecure = isSecure
        self.client = client
    }

    /// The largest buffer, in bytes, that a body leaves to the next request.
    private static let keptBodyBytes = 16_384

    /// Makes the request empty, and keeps its memory for the next one.
    public final func reset() {
        method = .get
        target.removeAll(keepingCapacity: true)
        authority.removeAll(keepingCapacity: true)
        fields.removeAll()
        body.removeAll(keepingCapacity: body.capacity <= HTTPRequest.keptBodyBytes)
    }
}

/// A whole response. The edge adds `content-length` and `date`.
public struct HTTPResponse: Sendable {
    public var status: Int
    /// Names in lower case; without `content-length`, `date` and connection fields.
    public var fields: [(name: String, value: String)]
    public var body: [UInt8]

    public init(status: Int, fields: [(name: String, value: String)] = [], body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// Fields with which a page of any origin may read an answer, and how long to wait. The server trusts no
    /// request for a browser's cookies or address.
    public static let forPages: [(name: String, value: String)] = [
        ("access-control-allow-origin", "*"), ("access-control-expose-headers", "retry-after"),
    ]

    /// Whether the answer says the length of its body. 204 must not; 304 would have to say the length of the
    /// file that it does not carry (RFC 9110, 8.6).
    public var hasLength: Bool { status != 204 && status != 304 }
}

/// Bytes that many streams share: the edge writes each stream from them without a copy.
public final class SharedBytes: Sendable {
    public let bytes: [UInt8]
    public init(_ bytes: [UInt8]) { self.bytes = bytes }
}
