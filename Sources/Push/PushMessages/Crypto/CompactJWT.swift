import Model

/// A signed token in compact form (RFC 7519, RFC 7515 §7.1): header, claims and signature in base64url.
enum CompactJWT {
    /// `header` and `claims` are the UTF-8 of JSON objects.
    static func signed(
        header: String, claims: String, by key: P256Key
    ) throws(PushCryptoError) -> String {
        try signed(header: header, claims: claims) { text throws(PushCryptoError) in try key.sign(text) }
    }

    static func signed(
        header: String, claims: String, by key: RSAKey
    ) throws(PushCryptoError) -> String {
        try signed(header: header, claims: claims) { text throws(PushCryptoError) in try key.sign(text) }
    }

    private static func signed(
        header: String, claims: String, sign: ([UInt8]) throws(PushCryptoError) -> [UInt8]
    ) throws(PushCryptoError) -> String {
        let dot = UInt8(ascii: ".")
        var text = Base64URL.encode(header.utf8)
        text.append(dot)
        text += Base64URL.encode(claims.utf8)
        let signature = try sign(text)
        text.append(dot)
        text += Base64URL.encode(signature)
        return String(decoding: text, as: UTF8.self)
    }

    /// The text as a JSON string, with its quotation marks (RFC 8259 §7).
    static func quoted(_ text: String) -> String {
        var out = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\":
                out += "\\"
                out.unicodeScalars.append(scalar)
            case "\u{0}"..."\u{1F}":
                let digits = String(scalar.value, radix: 16)
                out += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
            default: out.unicodeScalars.append(scalar)
            }
        }
        return out + "\""
    }
}
