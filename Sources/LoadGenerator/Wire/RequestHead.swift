import CNghttp2

/// The header fields of a request in libnghttp2's form, made once and used often. They must outlive the
/// requests' header frames, so a connection holds them until the stream has ended.
public final class RequestHead {
    private let memory: UnsafeMutablePointer<UInt8>
    let vector: UnsafeMutablePointer<nghttp2_nv>
    let count: Int
    let hasBody: Bool

    public init(
        _ method: String, _ path: String, authority: String, fields: [(String, String)] = []
    ) {
        let pseudo = [
            (":method", method), (":scheme", "http"), (":authority", authority), (":path", path),
        ]
        let all = pseudo + fields
        hasBody = method == "POST"
        count = all.count
        let size = all.reduce(0) { $0 + $1.0.utf8.count + $1.1.utf8.count }
        memory = .allocate(capacity: max(size, 1))
        vector = .allocate(capacity: all.count)
        var next = memory
        func put(_ text: String) -> (UnsafeMutablePointer<UInt8>, Int) {
            let start = next
            for byte in text.utf8 {
                next.pointee = byte
                next += 1
            }
            return (start, next - start)
        }
        for (index, field) in all.enumerated() {
            let name = put(field.0)
            let value = put(field.1)
            let flags = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
            (vector + index).initialize(
                to: nghttp2_nv(
                    name: name.0, value: value.0, namelen: name.1, valuelen: value.1, flags: UInt8(flags)))
        }
    }

    deinit {
        memory.deallocate()
        vector.deallocate()
    }
}
