// The texts of ids that clients see.

extension MessageID {
    /// 32 lower-case hexadecimal digits.
    public func append(to out: inout [UInt8]) {
        Hex.append(time, digits: 16, to: &out)
        Hex.append(random, digits: 16, to: &out)
    }

    public var text: String {
        var out: [UInt8] = []
        append(to: &out)
        return String(decoding: out, as: UTF8.self)
    }
}

extension EventID {
    /// 16 digits of position, a dot, 4 of history.
    public func append(to out: inout [UInt8]) {
        Hex.append(position.rawValue, digits: 16, to: &out)
        out.append(UInt8(ascii: "."))
        Hex.append(UInt64(history), digits: 4, to: &out)
    }

    /// `nil` where the text is not of that form.
    public init?(_ text: some RandomAccessCollection<UInt8>) {
        guard text.count == 21, let dot = text.firstIndex(of: UInt8(ascii: ".")),
            text.distance(from: text.startIndex, to: dot) == 16,
            let position = Hex.parse(text[..<dot]), let history = Hex.parse(text[text.index(after: dot)...])
        else { return nil }
        self.init(position: Position(position), history: UInt16(truncatingIfNeeded: history))
    }
}

public enum Hex {
    private static let digits = Array("0123456789abcdef".utf8)

    public static func append(_ value: UInt64, digits count: Int, to out: inout [UInt8]) {
        for place in stride(from: (count - 1) * 4, through: 0, by: -4) {
            out.append(digits[Int(truncatingIfNeeded: value >> UInt64(place)) & 15])
        }
    }

    public static func text(_ bytes: some Collection<UInt8>) -> String {
        var out: [UInt8] = []
        for byte in bytes { append(UInt64(byte), digits: 2, to: &out) }
        return String(decoding: out, as: UTF8.self)
    }

    /// Up to 16 lower-case digits.
    static func parse(_ text: some Collection<UInt8>) -> UInt64? {
        guard !text.isEmpty, text.count <= 16 else { return nil }
        var value: UInt64 = 0
        for byte in text {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = value << 4 | UInt64(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"):
                value = value << 4 | UInt64(byte - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return value
    }
}
