/// Dates of HTTP in the three forms that a recipient must read (RFC 9110 §5.6.7).
enum HTTPDate {
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Seconds since 1970-01-01T00:00:00Z; `nil` where the text has none of the forms. The name of the day is
    /// not compared with the date.
    static func seconds(_ text: [UInt8]) -> Int64? {
        guard text.allSatisfy({ $0 < 0x80 }) else { return nil }
        var words = String(decoding: text, as: UTF8.self).split(separator: " ")
        // "Sun," begins the two forms that end with GMT; "Sun" begins that of asctime.
        guard let day = words.first else { return nil }
        words.removeFirst()
        guard day.hasSuffix(",") else { return asctime(words) }
        guard words.last == "GMT" else { return nil }
        words.removeLast()
        if words.count == 2 {
            // RFC 850: 06-Nov-94. The years 70 to 99 are those of the 20th century.
            let parts = words[0].split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count == 3, let year = number(parts[2], digits: 2) else { return nil }
            return seconds(parts[0], parts[1], year: year + (year < 70 ? 2000 : 1900), clock: words[1])
        }
        guard words.count == 4, let year = number(words[2], digits: 4) else { return nil }
        return seconds(words[0], words[1], year: year, clock: words[3])
    }

    /// `Nov  6 08:49:37 1994`, behind the day's name.
    private static func asctime(_ words: [Substring]) -> Int64? {
        guard words.count == 4, let year = number(words[3], digits: 4) else { return nil }
        let day = words[1].utf8.count == 1 ? "0" + words[1] : words[1]
        return seconds(day, words[0], year: year, clock: words[2])
    }

    private static func seconds(
        _ day: Substring, _ month: Substring, year: Int, clock: Substring
    ) -> Int64? {
        let parts = clock.split(separator: ":", omittingEmptySubsequences: false)
        guard let day = number(day, digits: 2), let month = months.firstIndex(of: String(month)),
            parts.count == 3, let hour = number(parts[0], digits: 2),
            let minute = number(parts[1], digits: 2),
            let second = number(parts[2], digits: 2), hour < 24, minute < 60, second <= 60,
            year >= 1, day >= 1, day <= lengthOfMonth(month, year: year)
        else { return nil }
        return Int64(daysSince1970(year: year, month: month + 1, day: day)) * 86_400
            + Int64(hour * 3600 + minute * 60 + second)
    }

    private static func number(_ text: Substring, digits: Int) -> Int? {
        guard text.utf8.count == digits,
            text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
        return Int(text)
    }

    /// `month` from 0.
    private static func lengthOfMonth(_ month: Int, year: Int) -> Int {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month]
    }

    /// Days from the civil date, in years that begin in March, so that a leap day ends its year.
    private static func daysSince1970(year: Int, month: Int, day: Int) -> Int {
        let shifted = month <= 2 ? year - 1 : year
        let era = shifted / 400
        let yearOfEra = shifted % 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }
}
