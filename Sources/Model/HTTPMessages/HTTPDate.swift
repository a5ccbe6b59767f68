import func Glibc.gmtime_r
import func Glibc.strftime
import func Glibc.timegm
import struct Glibc.tm

/// Dates of HTTP (RFC 9110 §5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
public enum HTTPDate {
    private static let sent = "%a, %d %b %Y %H:%M:%S GMT"
    /// The other two forms that a recipient must read: of RFC 850, and of asctime.
    private static let read = [sent, "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// `second`: since 1970-01-01T00:00:00Z.
    public static func text(_ second: Int) -> String { text(second, as: sent) }

    /// Another form of a time in UTC, as of `strftime`: `2026-11-20` for `%Y-%m-%d`.
    public static func text(_ second: Int, as form: String) -> String {
        var (second, date) = (second, tm())
        gmtime_r(&second, &date)
        return text(date, form)
    }

    private static func text(_ date: tm, _ form: String) -> String {
        var (buffer, date) = ([CChar](repeating: 0, count: 64), date)
        let count = strftime(&buffer, buffer.count, form, &date)
        return String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Seconds since 1970-01-01T00:00:00Z; `nil` if the text has none of the forms. The name of the day is
    /// not compared with the date. 784,111,777 for each of `Sun, 06 Nov 1994 08:49:37 GMT`,
    /// `Sunday, 06-Nov-94 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`.
    public static func seconds(_ text: String) -> Int64? {
        var words = text.split { " ,-:".contains($0) }
        if words.count == 7 { words = [0, 2, 1, 6, 3, 4, 5].map { words[$0] } }
        guard words.count >= 7, let month = months.firstIndex(of: String(words[2])) else { return nil }
        let numbers = [1, 3, 4, 5, 6].compactMap { Int32(words[$0]) }
        guard numbers.count == 5, (0..<10_000).contains(numbers[1]), numbers[4] <= 60 else { return nil }
        var date = tm()
        (date.tm_mday, date.tm_mon, date.tm_hour, date.tm_min) = (
            numbers[0], Int32(month), numbers[2], numbers[3]
        )
        // The years 70 to 99 are those of the 20th century.
        date.tm_year = numbers[1] >= 100 ? numbers[1] - 1900 : numbers[1] + (numbers[1] < 70 ? 100 : 0)
        let minute = Int64(timegm(&date))
        date.tm_sec = numbers[4]
        // A day or an hour that does not exist is another one now.
        let found = text.drop(while: \.isLetter)
        let isDate = read.contains { self.text(date, $0).drop(while: \.isLetter) == found }
        return isDate ? minute + Int64(numbers[4]) : nil
    }
}
