/// The endpoint of a Web Push subscription in fewer bytes. The last part of most endpoints is Base64url, so
/// the long runs of it are stored decoded.
///
/// One byte for the length of the beginning, the beginning up to the last `/`, then segments: a u16, the
/// highest bit of which says that the segment is decoded, the other 15 how many bytes follow. For example a
/// last part of 16 characters `A` becomes 80 0C and twelve zero bytes.
enum EndpointText {
    /// A shorter run is not worth a segment.
    private static let runMin = 16
    private static let decodedFlag: UInt16 = 0x8000

    /// `nil` if the endpoint has no such form, or takes no fewer bytes in it.
    static func pack(_ endpoint: [UInt8], originEnd: Int) -> [UInt8]? {
        guard let slash = endpoint.lastIndex(of: UInt8(ascii: "/")), slash >= originEnd, slash < 255,
            endpoint.count <= WebAddress.endpointBytesMax
        else { return nil }
        var out = [UInt8(slash + 1)] + endpoint[...slash]
        var (plain, at) = (slash + 1, slash + 1)
        while at < endpoint.count {
            let end: Int = endpoint[at...].firstIndex { Base64URL.value($0) == 0xFF } ?? endpoint.count
            // Four characters encode three bytes, whatever they are; the one to three behind them may not.
            let whole = at + (end - at) / 4 * 4
            if whole - at >= runMin, let decoded = Base64URL.decode(endpoint[at..<whole]) {
                append(endpoint[plain..<at], flag: 0, to: &out)
                append(decoded[...], flag: decodedFlag, to: &out)
                plain = whole
            }
            at = end + 1
        }
        append(endpoint[plain...], flag: 0, to: &out)
        return out.count < endpoint.count ? out : nil
    }

    private static func append(_ bytes: ArraySlice<UInt8>, flag: UInt16, to out: inout [UInt8]) {
        guard !bytes.isEmpty else { return }
        let word = UInt16(bytes.count) | flag
        out += [UInt8(word >> 8), UInt8(word & 0xFF)]
        out += bytes
    }

    /// `nil` if the bytes are none of `pack`.
    static func unpack(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        guard let start = start(bytes) else { return nil }
        var (out, at) = (Array(start), start.endIndex)
        while at < bytes.endIndex {
            guard at + 2 <= bytes.endIndex else { return nil }
            let word = UInt16(bytes[at]) << 8 | UInt16(bytes[at + 1])
            let end = at + 2 + Int(word & ~decodedFlag)
            guard end <= bytes.endIndex else { return nil }
            let segment = bytes[(at + 2)..<end]
            out += word & decodedFlag == 0 ? Array(segment) : Base64URL.encode(segment)
            at = end
        }
        return out.count <= WebAddress.endpointBytesMax ? out : nil
    }

    /// The beginning of the endpoint, which has the whole origin.
    static func start(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard let count = bytes.first, count > 0, bytes.count > Int(count) else { return nil }
        return bytes.dropFirst().prefix(Int(count))
    }
}
