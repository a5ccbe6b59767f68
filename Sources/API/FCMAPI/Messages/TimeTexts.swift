import HTTPMessages
import Model

/// protobuf's JSON form of a duration: `3.5s`.
enum Duration {
    /// `nil` if the form is wrong or the number too large.
    static func read(_ text: UnsafeBufferPointer<UInt8>) -> TimeSpan? {
        guard text.count >= 2, text.count <= 32, text[text.count - 1] == UInt8(ascii: "s") else { return nil }
        var seconds: UInt64 = 0
        var nanoseconds: UInt64 = 0
        var scale: UInt64 = 1_000_000_000
        var index = 0
        while index < text.count - 1, let digit = digit(text[index]) {
            guard seconds < 10_000_000_000 else { return nil }
            seconds = seconds * 10 + digit
            index += 1
        }
        guard index > 0 else { return nil }
        if text[index] == UInt8(ascii: ".") {
            let start = index + 1
            index = start
            while index < text.count - 1, let digit = digit(text[index]) {
                guard index - start < 9 else { return nil }
                scale /= 10
                nanoseconds += digit * scale
                index += 1
            }
            guard index > start else { return nil }
        }
        guard index == text.count - 1, seconds < 10_000_000_000 else { return nil }
        return .seconds(seconds) + .nanoseconds(nanoseconds)
    }

    static func digit(_ byte: UInt8) -> UInt64? {
        byte >= 0x30 && byte <= 0x39 ? UInt64(byte - 0x30) : nil
    }
}

/// Timestamps in protobuf's JSON form (RFC 3339).
enum Timestamp {
    static func isValid(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard text.count >= 20, text.count <= 40 else { return false }
        let pattern = Array("0000-00-00T00:00:00".utf8)
        for (index, wanted) in pattern.enumerated() {
            if wanted == 0x30 {
                guard Duration.digit(text[index]) != nil else { return false }
            } else if text[index] != wanted
                && !(wanted == UInt8(ascii: "T") && text[index] == UInt8(ascii: "t"))
            {
                return false
            }
        }
        guard isDate(text) else { return false }
        var index = pattern.count
        if text[index] == UInt8(ascii: ".") {
            index += 1
            let start = index
            while index < text.count, Duration.digit(text[index]) != nil { index += 1 }
            guard index > start, index - start <= 9 else { return false }
        }
        guard index < text.count else { return false }
        if text[index] == UInt8(ascii: "Z") || text[index] == UInt8(ascii: "z") {
            return index + 1 == text.count
        }
        guard text[index] == UInt8(ascii: "+") || text[index] == UInt8(ascii: "-"), index + 6 == text.count,
            text[index + 3] == UInt8(ascii: ":"), let hours = two(text, index + 1),
            let minutes = two(text, index + 4)
        else {
            return false
        }
        return hours < 24 && minutes < 60
    }

    /// Two digits as a number.
    private static func two(_ text: UnsafeBufferPointer<UInt8>, _ index: Int) -> Int? {
        guard let tens = Duration.digit(text[index]), let ones = Duration.digit(text[index + 1]) else {
            return nil
        }
        return Int(tens * 10 + ones)
    }

    /// Whether year, month, day, hour, minute and second exist; second 60 is a leap second.
    private static func isDate(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let century = two(text, 0), let years = two(text, 2), let month = two(text, 5),
            let day = two(text, 8), let hour = two(text, 11), let minute = two(text, 14),
            let second = two(text, 17), (1...12).contains(month)
        else { return false }
        let year = century * 100 + years
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
        return year > 0 && day > 0 && day <= days && hour < 24 && minute < 60 && second <= 60
    }

    /// `2026-11-20T22:26:44.123Z`
    static func text(_ milliseconds: Int64) -> String {
        let (second, rest) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        return HTTPDate.text(Int(second), as: "%Y-%m-%dT%H:%M:%S.") + "\(rest + 1000)Z".dropFirst()
    }

    /// `2026-11-20` from days since 1970.
    static func date(_ days: Int) -> String { HTTPDate.text(days * 86_400, as: "%Y-%m-%d") }
}
