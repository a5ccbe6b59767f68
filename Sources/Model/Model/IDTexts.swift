// The texts of ids that clients see.

extension MessageID {
    public static let textCount = 32

    /// 32 lower-case hexadecimal digits.
    public func write(to out: UnsafeMutableBufferPointer<UInt8>) {
        Hex.write(time, digits: 16, to: out, at: 0)
        Hex.write(random, digits: 16, to: out, at: 16)
    }

    public var text: String {
        String(unsafeUninitializedCapacity: MessageID.textCount) { out in
            write(to: out)
            return MessageID.textCount
        }
    }
}

extension MessageID {
    private static let eventStart = Array("{\"messageId\":\"".utf8)

    /// The id of the message whose event this is: every event begins with it. `nil` for other texts.
    public init?(ofEvent event: some RandomAccessCollection<UInt8>) {
        guard event.starts(with: MessageID.eventStart) else { return nil }
        self.init(event.dropFirst(MessageID.eventStart.count).prefix(MessageID.textCount))
    }

    /// `nil` if the text is not 32 hexadecimal digits.
    public init?(_ text: some RandomAccessCollection<UInt8>) {
        guard text.count == MessageID.textCount, let time = Hex.parse(text.prefix(16)),
            let random = Hex.parse(text.suffix(16))
        else { return nil }
        self.init(time: time, random: random)
    }
}

extension EventID {
    /// 16 digits of the position, a dot, 4 digits of the history: `000660bdeed60db8.2b40`.
    public func append(to out: inout [UInt8]) {
        Hex.append(position.rawValue, digits: 16, to: &out)
        out.append(UInt8(ascii: "."))
        Hex.append(UInt64(history), digits: 4, to: &out)
    }

    /// `nil` if the text does not have that form.
    public init?(_ text: some RandomAccessCollection<UInt8>) {
        guard text.count == 21, let dot = text.firstIndex(of: UInt8(ascii: ".")),
            text.distance(from: text.startIndex, to: dot) == 16,
            let position = Hex.parse(text[..<dot]), let history = Hex.parse(text[text.index(after: dot)...])
        else { return nil }
        self.init(position: Position(position), history: UInt16(truncatingIfNeeded: history))
    }
}

public enum Hex {
    @inline(__always)
    private static func digit(_ value: UInt64) -> UInt8 {
        let digit = UInt8(truncatingIfNeeded: value & 15)
        return digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
    }

    public static func append(_ value: UInt64, digits count: Int, to out: inout [UInt8]) {
        for shift in stride(from: (count - 1) * 4, through: 0, by: -4) {
            out.append(digit(value >> UInt64(shift)))
        }
    }

    static func write(
        _ value: UInt64, digits count: Int, to out: UnsafeMutableBufferPointer<UInt8>, at start: Int
    ) {
        for index in 0..<count { out[start + index] = digit(value >> UInt64((count - 1 - index) * 4)) }
    }

    public static func text(_ bytes: some Collection<UInt8>) -> String {
        var out: [UInt8] = []
        for byte in bytes { append(UInt64(byte), digits: 2, to: &out) }
        return String(decoding: out, as: UTF8.self)
    }

    /// The bytes of hexadecimal digits in either case; `nil` for an odd count or another character.
    public static func bytes(_ text: String) -> [UInt8]? {
        var out: [UInt8] = []
        var digits = text.utf8.makeIterator()
        while let first = digits.next() {
            guard let high = value(first), let low = digits.next().flatMap(value) else { return nil }
            out.append(high << 4 | low)
        }
        return out
    }

    /// The value of a hexadecimal digit in either case; `nil` for another character.
    public static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
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
