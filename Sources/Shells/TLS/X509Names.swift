import COpenSSL

/// A certificate's alternative names (RFC 5280 §4.2.1.6).
enum X509Names {
    static func hosts(of certificate: OpaquePointer) -> [String] {
        find(certificate) { $0.type == GEN_DNS ? $0.d.dNSName : nil }
    }

    static func uris(of certificate: OpaquePointer) -> [String] {
        find(certificate) { $0.type == GEN_URI ? $0.d.uniformResourceIdentifier : nil }
    }

    private static func find(
        _ certificate: OpaquePointer, _ choose: (GENERAL_NAME) -> UnsafeMutablePointer<ASN1_STRING>?
    ) -> [String] {
        guard let raw = X509_get_ext_d2i(certificate, NID_subject_alt_name, nil, nil) else { return [] }
        let all = OpaquePointer(raw)
        defer { GENERAL_NAMES_free(all) }
        var names: [String] = []
        for index in 0..<OPENSSL_sk_num(all) {
            guard let item = OPENSSL_sk_value(all, index) else { continue }
            let name = item.assumingMemoryBound(to: GENERAL_NAME.self).pointee
            guard let text = choose(name), let start = ASN1_STRING_get0_data(text) else { continue }
            let bytes = UnsafeBufferPointer(start: start, count: Int(ASN1_STRING_length(text)))
            // A DNS name or URI is plain ASCII, and a zero byte would cut the name short for other readers.
            guard bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else { continue }
            names.append(String(decoding: bytes, as: UTF8.self))
        }
        return names
    }
}
