import CEpoll
import Glibc

/// Reads a `text/event-stream` (WHATWG HTML §9.2) as far as needed to count its messages and to read their
/// numbers.
///
/// A message is an event without a type or of type `message`. Its number is the digits behind the text
/// `"n":"` in its data, where this program's senders put it. Bytes may be cut anywhere.
public struct EventScanner {
    /// Means a message whose data has no number.
    public static let unnumbered = -1
    /// The most digits that a number may have.
    private static let digitsMax = 15

    private var carried: [UInt8] = []
    private var isMessage = true
    private var hasData = false
    private var number = EventScanner.unnumbered
    /// Events of other types than `message`.
    public private(set) var others = 0

    /// Appends the numbers of the messages that end in these bytes.
    public mutating func scan(_ bytes: UnsafeRawBufferPointer, into numbers: inout [Int]) {
        var rest = bytes
        while let base = rest.baseAddress, rest.count > 0 {
            guard let found = memchr(base, 0x0A, rest.count) else {
                carried.append(contentsOf: rest)
                return
            }
            let length = UnsafeRawPointer(found) - base
            let line = UnsafeRawBufferPointer(start: base, count: length)
            if carried.isEmpty {
                processLine(line, into: &numbers)
            } else {
                var whole: [UInt8] = []
                swap(&whole, &carried)
                whole.append(contentsOf: line)
                whole.withUnsafeBytes { processLine($0, into: &numbers) }
                whole.removeAll(keepingCapacity: true)
                swap(&whole, &carried)
            }
            rest = UnsafeRawBufferPointer(rebasing: rest[(length + 1)...])
        }
    }

    private mutating func processLine(_ raw: UnsafeRawBufferPointer, into numbers: inout [Int]) {
        let line = raw.last == 0x0D ? UnsafeRawBufferPointer(rebasing: raw.dropLast()) : raw
        guard let first = line.first else { return endEvent(into: &numbers) }
        switch first {
        case UInt8(ascii: "d") where EventScanner.begins(line, "data:"):
            hasData = true
            if let found = EventScanner.number(in: line) { number = found }
        case UInt8(ascii: "e") where EventScanner.begins(line, "event:"):
            isMessage =
                EventScanner.begins(line, "event: message") && line.count == 14
                || EventScanner.begins(line, "event:message") && line.count == 13
        default: break
        }
    }

    private mutating func endEvent(into numbers: inout [Int]) {
        if hasData {
            if isMessage { numbers.append(number) } else { others += 1 }
        }
        isMessage = true
        hasData = false
        number = EventScanner.unnumbered
    }

    private static func begins(_ line: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
        guard line.count >= text.utf8CodeUnitCount, let base = line.baseAddress else { return false }
        return memcmp(base, text.utf8Start, text.utf8CodeUnitCount) == 0
    }

    /// The digits behind the mark; nil if there is no mark or no number of a possible length.
    static func number(in text: UnsafeRawBufferPointer) -> Int? {
        let mark: StaticString = "\"n\":\""
        guard let base = text.baseAddress,
            let found = memmem(base, text.count, mark.utf8Start, mark.utf8CodeUnitCount)
        else { return nil }
        let start = UnsafeRawPointer(found) - base + mark.utf8CodeUnitCount
        var value = 0
        var digits = 0
        for byte in text[start...] {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { break }
            digits += 1
            guard digits <= digitsMax else { return nil }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return digits > 0 ? value : nil
    }
}
