import CCurl

/// Reads a URL with libcurl's own parser, so that what is checked here is what libcurl connects to. URLs that
/// parsers understand in different ways are refused, because the caller has read the URL with another parser.
enum Origin {
    /// Host and port in lower case, or why the URL is refused.
    static func read(_ url: String) -> Result<String, PushClientError> {
        guard url.utf8.count <= urlBytesMax else {
            return refused("the URL has more than \(urlBytesMax) bytes")
        }
        guard url.prefix(8).lowercased() == "https://" else {
            return refused("the URL does not begin with https://")
        }
        // libcurl decodes percent signs in a host, and takes `https:///x` for the host x.
        let authority = url.utf8.dropFirst(8).prefix { !"/?#".utf8.contains($0) }
        guard !authority.isEmpty, authority.allSatisfy(isPlain) else {
            return refused("the URL has no plain host (letters, digits, dots, hyphens)")
        }
        // A text for C would end at a NUL, and a line of HTTP at a line break.
        guard url.utf8.allSatisfy({ $0 > 32 && $0 < 127 }) else {
            return refused("the URL has a character that must be percent-encoded")
        }
        guard let handle = curl_url() else { return refused("libcurl gives no memory") }
        defer { curl_url_cleanup(handle) }
        let code = curl_url_set(handle, CURLUPART_URL, url, UInt32(CURLU_DISALLOW_USER))
        guard code == CURLUE_OK else {
            return refused("the URL cannot be used: \(String(cString: curl_url_strerror(code)))")
        }
        guard part(CURLUPART_SCHEME, of: handle) == "https" else {
            return refused("the URL's scheme is not https")
        }
        guard let host = part(CURLUPART_HOST, of: handle), 1...hostBytesMax ~= host.utf8.count,
            let port = part(CURLUPART_PORT, of: handle, flags: UInt32(CURLU_DEFAULT_PORT))
        else { return refused("the URL has no host of at most \(hostBytesMax) bytes") }
        return .success("\(host.lowercased()):\(port)")
    }

    /// Bytes of a host name (RFC 1035 §2.3.4).
    private static let hostBytesMax = 253
    /// Bytes of a URL. UnifiedPush allows 1,000.
    private static let urlBytesMax = 2_048

    /// What a host name, an address in brackets and a port have.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-._:[]".utf8.contains(byte)
        }
    }

    private static func refused(_ reason: String) -> Result<String, PushClientError> {
        .failure(PushClientError(description: reason))
    }

    private static func part(_ part: CURLUPart, of handle: OpaquePointer, flags: UInt32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, part, &text, flags) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
