/// A reader's error, and its byte offset in the input.
public struct DecodeError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Reason: Hashable, Sendable {
        /// The input ends before the value does.
        case truncated
        /// A varint of more than 64 bits, or one with needless zeros at its end.
        case badVarint
        /// A count or length past the bound that the caller named.
        case tooMany(UInt64, max: Int)
        /// Bytes are left behind the end of the value.
        case trailing(Int)
        /// The bytes are there, but they mean nothing in this place.
        case invalid(String)
        /// The value has a version that this program does not know.
        case version(of: String, UInt64, known: ClosedRange<UInt64>)
    }
    public var offset: Int
    public var reason: Reason

    public init(offset: Int, reason: Reason) {
        self.offset = offset
        self.reason = reason
    }

    public var description: String {
        switch reason {
        case .truncated: "ends too early at byte \(offset)"
        case .badVarint: "malformed varint at byte \(offset)"
        case .tooMany(let count, let max): "\(count) where at most \(max) may stand, at byte \(offset)"
        case .trailing(let count): "\(count) bytes too many at byte \(offset)"
        case .invalid(let what): "\(what) at byte \(offset)"
        case .version(let what, let found, let known): FormatVersion.sentence(what, found, known: known)
        }
    }
}

/// Reads what `ByteWriter` wrote. The reader holds the array, never copies it and never traps: bytes that
/// make no sense are a `DecodeError`. After an error in a number, a length or a byte string the reader is at
/// the beginning of the broken value.
public struct ByteReader: Sendable {
    @usableFromInline let bytes: [UInt8]
    /// Invariant: position <= end == bytes.count.
    @usableFromInline var position: Int
    @usableFromInline let end: Int

    public init(_ bytes: [UInt8]) {
        self.bytes = bytes
        position = 0
        end = bytes.count
    }

    /// The beginning of the next value, counted from the array's start.
    @inlinable
    public var offset: Int { position }

    @inlinable
    public var remaining: Int { end - offset }

    @inlinable
    public var isAtEnd: Bool { offset == end }

    public func fail(_ what: String) -> DecodeError { DecodeError(offset: offset, reason: .invalid(what)) }

    /// Reads the version byte in front of a value. A version outside `known` is an error that says whether a
    /// newer program wrote the value.
    public mutating func version(of what: String, _ known: ClosedRange<UInt8>) throws(DecodeError) -> UInt8 {
        let found = try u8()
        guard known.contains(found) else {
            let known = UInt64(known.lowerBound)...UInt64(known.upperBound)
            throw DecodeError(offset: offset - 1, reason: .version(of: what, UInt64(found), known: known))
        }
        return found
    }

    @inlinable
    public mutating func u8() throws(DecodeError) -> UInt8 { try fixed(UInt8.self) }

    @inlinable
    public mutating func u16() throws(DecodeError) -> UInt16 { try fixed(UInt16.self) }

    @inlinable
    public mutating func u32() throws(DecodeError) -> UInt32 { try fixed(UInt32.self) }

    @inlinable
    public mutating func u64() throws(DecodeError) -> UInt64 { try fixed(UInt64.self) }

    /// Unsigned LEB128 in its shortest form.
    @inlinable
    public mutating func varint() throws(DecodeError) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        var at = offset
        while at < end {
            let byte = bytes[at]
            at += 1
            if shift == 63, byte > 1 { throw DecodeError(offset: offset, reason: .badVarint) }
            value |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 {
                if byte == 0, shift > 0 { throw DecodeError(offset: offset, reason: .badVarint) }
                move(to: at)
                return value
            }
            shift += 7
        }
        throw DecodeError(offset: offset, reason: .truncated)
    }

    /// A varint that counts at most `max` elements of at least `elementBytesMin` bytes each. The reader
    /// refuses a count for which too few bytes are left, so that nobody reserves memory for a wrong count.
    @inlinable
    public mutating func count(max: Int, elementBytesMin: Int = 1) throws(DecodeError) -> Int {
        let start = offset
        let value = try varint()
        if value > UInt64(Swift.max(0, max)) {
            move(to: start)
            throw DecodeError(offset: start, reason: .tooMany(value, max: max))
        }
        let (needed, over) = Int(value).multipliedReportingOverflow(by: elementBytesMin)
        if over || needed > remaining {
            move(to: start)
            throw DecodeError(offset: start, reason: .truncated)
        }
        return Int(value)
    }

    /// The next `count` bytes, copied.
    @inlinable
    public mutating func raw(_ count: Int) throws(DecodeError) -> [UInt8] { Array(try slice(count)) }

    /// The next `count` bytes, sharing the reader's array.
    @inlinable
    public mutating func slice(_ count: Int) throws(DecodeError) -> ArraySlice<UInt8> {
        guard count >= 0, count <= remaining else { throw DecodeError(offset: offset, reason: .truncated) }
        let start = offset
        move(to: start + count)
        return bytes[start..<start + count]
    }

    /// A byte string with its length in front, at most `max` bytes.
    @inlinable
    public mutating func string(max: Int) throws(DecodeError) -> [UInt8] { Array(try stringSlice(max: max)) }

    /// A byte string with its length in front, at most `max` bytes, sharing the reader's array.
    @inlinable
    public mutating func stringSlice(max: Int) throws(DecodeError) -> ArraySlice<UInt8> {
        try slice(try count(max: max))
    }

    /// Refuses input that goes on after everything was read.
    @inlinable
    public func expectEnd() throws(DecodeError) {
        if !isAtEnd { throw DecodeError(offset: offset, reason: .trailing(remaining)) }
    }

    @inlinable
    mutating func fixed<Value: FixedWidthInteger>(_ type: Value.Type) throws(DecodeError) -> Value {
        let width = MemoryLayout<Value>.size
        guard width <= remaining else { throw DecodeError(offset: offset, reason: .truncated) }
        let start = offset
        // In bounds by the guard and the invariant position <= end <= bytes.count.
        let value = bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: start, as: Value.self) }
        move(to: start + width)
        return Value(littleEndian: value)
    }

    @inlinable
    mutating func move(to index: Int) { position = index }
}
