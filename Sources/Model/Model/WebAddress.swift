/// A browser's or an app's subscription at a Web Push service (RFC 8030), as a transport stores it.
public struct WebAddress: Hashable, Sendable {
    public static let p256dhBytes = 65
    public static let authBytes = 16
    public static let endpointBytesMax = 2048
    private static let format: UInt8 = 1
    /// The endpoint is an `EndpointText`.
    private static let shortFormat: UInt8 = 2
    private static let keyIDEnd = 9
    private static let headBytes = keyIDEnd + p256dhBytes + authBytes

    /// The project's key for which the subscription was created: the first 8 bytes of the SHA-256 of its
    /// public key of 65 bytes, the highest byte first. A push service takes messages under this key alone.
    public var keyID: UInt64
    /// The subscription's public key (RFC 8291 §3.1): 65 bytes.
    public var p256dh: [UInt8]
    /// The subscription's secret (RFC 8291 §3.2): 16 bytes.
    public var auth: [UInt8]
    /// The URL for messages. Everybody who knows the URL can send, so no log may show more than its origin.
    public var endpoint: String

    public init(keyID: UInt64, p256dh: [UInt8], auth: [UInt8], endpoint: String) {
        self.keyID = keyID
        self.p256dh = p256dh
        self.auth = auth
        self.endpoint = endpoint
    }

    /// The format's number, the key's id, `p256dh`, `auth`, the endpoint.
    public var packed: [UInt8] {
        let text = Array(endpoint.utf8)
        let short = EndpointText.pack(text, originEnd: WebAddress.originEnd(text))
        var out: [UInt8] = []
        out.reserveCapacity(WebAddress.headBytes + (short ?? text).count)
        out.append(short == nil ? WebAddress.format : WebAddress.shortFormat)
        for index in 0..<8 { out.append(UInt8(truncatingIfNeeded: keyID >> UInt64(56 - 8 * index))) }
        out += p256dh
        out += auth
        out += short ?? text
        return out
    }

    /// `nil` if the bytes are no packed address, or an address in another format.
    public init?(packed bytes: [UInt8]) {
        let head = WebAddress.headBytes
        guard bytes.count > head, bytes.count <= head + WebAddress.endpointBytesMax else { return nil }
        let text: [UInt8]?
        switch bytes[0] {
        case WebAddress.format: text = Array(bytes[head...])
        case WebAddress.shortFormat: text = EndpointText.unpack(bytes[head...])
        default: text = nil
        }
        guard let text, let endpoint = String(validating: text, as: UTF8.self) else { return nil }
        keyID = bytes[1..<WebAddress.keyIDEnd].reduce(0) { $0 << 8 | UInt64($1) }
        p256dh = Array(bytes[WebAddress.keyIDEnd..<WebAddress.keyIDEnd + WebAddress.p256dhBytes])
        auth = Array(bytes[WebAddress.keyIDEnd + WebAddress.p256dhBytes..<head])
        self.endpoint = endpoint
    }

    /// `scheme://host[:port]` of the endpoint: a part of `endpoint`, not a copy.
    public var origin: Substring {
        let text = endpoint.utf8
        let end = WebAddress.originEnd(text)
        return endpoint[..<end]
    }

    /// The origin's bytes within a packed address; `nil` if the bytes are no packed address.
    public static func origin(ofPacked bytes: [UInt8]) -> ArraySlice<UInt8>? {
        guard bytes.count > headBytes else { return nil }
        let start: ArraySlice<UInt8>?
        switch bytes[0] {
        case format: start = bytes[headBytes...]
        case shortFormat: start = EndpointText.start(bytes[headBytes...])
        default: start = nil
        }
        return start.map { $0[..<originEnd($0)] }
    }

    /// The beginning of the path or the query: at the first `/` or `?` behind `://`.
    private static func originEnd<Text: Collection<UInt8>>(_ text: Text) -> Text.Index {
        var slashes = 0
        for index in text.indices {
            let byte = text[index]
            if byte == UInt8(ascii: "/") { slashes += 1 }
            if slashes == 3 || byte == UInt8(ascii: "?") { return index }
        }
        return text.endIndex
    }
}
