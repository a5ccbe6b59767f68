/// Base64url without padding (RFC 4648 §5): the bytes FB FF are `-_8`.
public enum Base64URL {
    @usableFromInline
    static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    /// The value of each byte; 0xFF for bytes outside the alphabet.
    @usableFromInline
    static let values: [UInt8] = {
        var values = [UInt8](repeating: 0xFF, count: 256)
        for (value, byte) in alphabet.enumerated() { values[Int(byte)] = UInt8(value) }
        return values
    }()

    public static func encode(_ bytes: some Collection<UInt8>) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity((bytes.count * 4 + 2) / 3)
        var bits: UInt32 = 0
        var held = 0
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            held += 8
            while held >= 6 {
                held -= 6
                out.append(alphabet[Int(bits >> UInt32(held)) & 63])
            }
        }
        if held > 0 { out.append(alphabet[Int(bits << UInt32(6 - held)) & 63]) }
        return out
    }

    /// `nil` if a byte is outside the alphabet, the length is impossible, or unused bits are set.
    public static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        var out: [UInt8] = []
        out.reserveCapacity(text.count * 3 / 4)
        var bits: UInt32 = 0
        var held = 0
        for byte in text {
            let value = values[Int(byte)]
            guard value != 0xFF else { return nil }
            bits = bits << 6 | UInt32(value)
            held += 6
            if held >= 8 {
                held -= 8
                out.append(UInt8(truncatingIfNeeded: bits >> UInt32(held)))
            }
        }
        guard held < 6, bits & ((1 << UInt32(held)) - 1) == 0 else { return nil }
        return out
    }

    /// The value of one character; 0xFF for none.
    @inlinable
    @inline(__always)
    public static func value(_ byte: UInt8) -> UInt8 { values[Int(byte)] }
    /// The character of the value's low six bits.
    @inlinable
    @inline(__always)
    public static func character(_ value: UInt8) -> UInt8 { alphabet[Int(value & 63)] }
}
