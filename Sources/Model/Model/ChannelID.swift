/// The id that a user agent gives to one of its push subscriptions: a UUID.
///
/// Its text is the form with hyphens, written in lower case and read in any case (RFC 9562 §4).
public struct ChannelID: Hashable, Sendable {
    public static let textCount = 36
    private static let hyphens: Set<Int> = [8, 13, 18, 23]

    public var high: UInt64
    public var low: UInt64

    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    public init?(_ text: some Collection<UInt8>) {
        guard text.count == ChannelID.textCount else { return nil }
        var digits: [UInt8] = []
        for (offset, byte) in text.enumerated() {
            guard ChannelID.hyphens.contains(offset) == (byte == UInt8(ascii: "-")) else { return nil }
            let isCapital = (UInt8(ascii: "A")...UInt8(ascii: "F")).contains(byte)
            if byte != UInt8(ascii: "-") { digits.append(isCapital ? byte | 0x20 : byte) }
        }
        guard let high = Hex.parse(digits.prefix(16)), let low = Hex.parse(digits.suffix(16)) else {
            return nil
        }
        self.init(high: high, low: low)
    }

    public var text: [UInt8] {
        var digits: [UInt8] = []
        Hex.append(high, digits: 16, to: &digits)
        Hex.append(low, digits: 16, to: &digits)
        var out: [UInt8] = []
        for digit in digits {
            if ChannelID.hyphens.contains(out.count) { out.append(UInt8(ascii: "-")) }
            out.append(digit)
        }
        return out
    }
}
