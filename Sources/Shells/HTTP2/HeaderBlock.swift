import CNghttp2

/// The fields of a header block that is to be sent, in memory that the caller has measured.
public struct HeaderBlock {
    @usableFromInline var text: UnsafeMutablePointer<UInt8>
    @usableFromInline let vector: UnsafeMutablePointer<nghttp2_nv>
    @usableFromInline var count = 0
    @usableFromInline var flags = NGHTTP2_NV_FLAG_NONE.rawValue

    @usableFromInline
    init(text: UnsafeMutablePointer<UInt8>, vector: UnsafeMutablePointer<nghttp2_nv>) {
        self.text = text
        self.vector = vector
    }

    /// Calls `body` with an empty block, which has room for `fields` fields whose names and values have
    /// `bytes` bytes in all. libnghttp2 copies the block when it is submitted.
    @inlinable
    public static func with<Result>(
        bytes: Int, fields: Int, _ body: (inout HeaderBlock) -> Result
    ) -> Result {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: bytes) { text in
            withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: fields) { vector in
                guard let text = text.baseAddress, let vector = vector.baseAddress else {
                    preconditionFailure("allocated memory has an address")
                }
                var block = HeaderBlock(text: text, vector: vector)
                return body(&block)
            }
        }
    }

    /// Calls `body` with a block that has the fields.
    public static func with<Result>(
        _ fields: [(name: String, value: String)], neverIndexed: Set<String> = [],
        _ body: (HeaderBlock) -> Result
    ) -> Result {
        with(bytes: bytes(of: fields), fields: fields.count) { block in
            for field in fields {
                block.add(field.name, field.value, isNeverIndexed: neverIndexed.contains(field.name))
            }
            return body(block)
        }
    }

    /// Bytes of all names and values.
    public static func bytes(of fields: [(name: String, value: String)]) -> Int {
        fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
    }

    /// `isNeverIndexed`: whether no compression table may have the field (RFC 7541 §7.1.3).
    @inlinable
    public mutating func add(_ name: String, _ value: String, isNeverIndexed: Bool = false) {
        let (name, nameCount) = put(name)
        let (value, valueCount) = put(value)
        let flags = flags | (isNeverIndexed ? NGHTTP2_NV_FLAG_NO_INDEX.rawValue : 0)
        vector[count] = nghttp2_nv(
            name: name, value: value, namelen: nameCount, valuelen: valueCount, flags: UInt8(flags))
        count += 1
    }

    @inlinable
    mutating func put(_ string: String) -> (UnsafeMutablePointer<UInt8>, Int) {
        let start = text
        // A native string has its bytes in one piece, and is not copied.
        let copied: Int? = string.utf8.withContiguousStorageIfAvailable { bytes in
            if let base = bytes.baseAddress { start.update(from: base, count: bytes.count) }
            return bytes.count
        }
        if let copied {
            text += copied
        } else {
            for byte in string.utf8 {
                text.pointee = byte
                text += 1
            }
        }
        return (start, text - start)
    }
}

/// A header block that many requests share without a copy. It must live until its requests have ended.
public final class SharedHeaderBlock {
    public let block: HeaderBlock
    private let text: UnsafeMutablePointer<UInt8>

    public init(_ fields: [(name: String, value: String)]) {
        text = .allocate(capacity: HeaderBlock.bytes(of: fields))
        var block = HeaderBlock(text: text, vector: .allocate(capacity: fields.count))
        block.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
        for field in fields { block.add(field.name, field.value) }
        self.block = block
    }

    deinit {
        text.deallocate()
        block.vector.deallocate()
    }
}
