import CCurl

/// Reads a URL with libcurl's own parser, so that what is checked here is what libcurl connects to.
enum Origin {
    /// Host and port in lower case, or why the URL is refused.
    static func read(_ url: String) -> Result<String, PushClientError> {
        guard url.utf8.count <= urlBytesMax else {
            return refused("the URL has more than \(urlBytesMax) bytes")
        }
        // A text for C ends at its first NUL.
        guard !url.utf8.contains(0) else { return refused("the URL has a NUL") }
        guard let handle = curl_url() else { return refused("libcurl gives no memory") }
        defer { curl_url_cleanup(handle) }
        // Without a flag, libcurl takes a scheme that is missing for a mistake, and refuses an unknown one.
        let code = curl_url_set(handle, CURLUPART_URL, url, UInt32(CURLU_DISALLOW_USER))
        guard code == CURLUE_OK else {
            return refused("the URL cannot be used: \(String(cString: curl_url_strerror(code)))")
        }
        guard part(handle, CURLUPART_SCHEME) == "https" else {
            return refused("the URL's scheme is not https")
        }
        guard let host = part(handle, CURLUPART_HOST), !host.isEmpty,
            let port = part(handle, CURLUPART_PORT, UInt32(CURLU_DEFAULT_PORT))
        else { return refused("the URL has no host") }
        return .success("\(host.lowercased()):\(port)")
    }

    /// Bytes of a URL. UnifiedPush allows 1,000.
    private static let urlBytesMax = 2_048

    private static func refused(_ reason: String) -> Result<String, PushClientError> {
        .failure(PushClientError(description: reason))
    }

    private static func part(_ handle: OpaquePointer, _ part: CURLUPart, _ flags: UInt32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, part, &text, flags) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
