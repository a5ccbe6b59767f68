import HTTPMessages
import Model

/// The field `Retry-After`: seconds, or a date (RFC 9110 §10.2.3): `120`, or `Sun, 06 Nov 1994 08:49:37 GMT`.
enum RetryAfter {
    /// Four weeks: no message waits longer.
    static let secondsMax = 28 * 86_400

    /// From 0 to `secondsMax`; `nil` if the field is missing or malformed.
    static func seconds(_ text: String?, now: WallTime) -> Int? {
        guard let text, text.utf8.count <= 64 else { return nil }
        let value = text.utf8.drop { $0 == 0x20 || $0 == 0x09 }
        let end = value.lastIndex { $0 != 0x20 && $0 != 0x09 }
        guard let end else { return nil }
        let trimmed = String(decoding: value[...end], as: UTF8.self)
        if trimmed.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
            // More digits than fit are more than the longest wait.
            return min(Int(trimmed) ?? secondsMax, secondsMax)
        }
        guard let date = HTTPDate.seconds(trimmed) else { return nil }
        // The beginning of a second is too early by less than a second, so the wait is rounded up.
        let wait = (date * 1000 - now.milliseconds + 999) / 1000
        return Int(max(0, min(wait, Int64(secondsMax))))
    }
}
