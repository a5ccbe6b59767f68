import CNghttp2

/// A response's header fields, in memory that the caller has measured for them. nghttp2 copies the fields.
struct ResponseHead {
    var text: UnsafeMutablePointer<UInt8>
    let vector: UnsafeMutableBufferPointer<nghttp2_nv>
    private(set) var count = 0

    init(text: UnsafeMutablePointer<UInt8>, vector: UnsafeMutableBufferPointer<nghttp2_nv>) {
        self.text = text
        self.vector = vector
    }

    /// Whether the field is of one connection, as HTTP/1.1 has such fields. HTTP/2 forbids them
    /// (RFC 9113 §8.2.2).
    static func isOfConnection(_ name: String) -> Bool {
        switch name {
        case "upgrade", "connection", "keep-alive", "proxy-connection", "transfer-encoding": true
        default: false
        }
    }

    mutating func add(_ name: String, _ value: String) {
        let (name, nameCount) = put(name)
        let (value, valueCount) = put(value)
        vector[count] = nghttp2_nv(
            name: name, value: value, namelen: nameCount, valuelen: valueCount,
            flags: UInt8(NGHTTP2_NV_FLAG_NONE.rawValue))
        count += 1
    }

    private mutating func put(_ string: String) -> (UnsafeMutablePointer<UInt8>, Int) {
        let start = text
        var string = string
        let count = string.withUTF8 { bytes in
            if let base = bytes.baseAddress { start.update(from: base, count: bytes.count) }
            return bytes.count
        }
        text += count
        return (start, count)
    }
}
