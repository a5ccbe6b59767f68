/// Names as Prometheus allows them: `[a-zA-Z_:][a-zA-Z0-9_:]*` for metrics, without the colon for labels.
enum PrometheusName {
    static let prefix = "tidecast_"

    /// With the prefix and, where it is missing, the suffix; other characters become `_`.
    static func make(_ name: String, suffix: String) -> String {
        var made = allowed(name)
        if !made.hasPrefix(prefix) { made = prefix + made }
        if !suffix.isEmpty, !made.hasSuffix(suffix) { made += suffix }
        return made
    }

    static func label(_ name: String) -> String {
        let made = allowed(name)
        // A name must not begin with a digit, and names that begin with two underscores are Prometheus' own.
        guard let first = made.first, !first.isNumber, !made.hasPrefix("__") else { return "label_" + made }
        return made
    }

    private static func allowed(_ name: String) -> String {
        String(
            String.UnicodeScalarView(
                name.unicodeScalars.map { scalar in
                    switch scalar {
                    case "a"..."z", "A"..."Z", "0"..."9", "_": scalar
                    default: "_"
                    }
                }))
    }
}

/// The exposition format: https://prometheus.io/docs/instrumenting/exposition_formats/
enum PrometheusText {
    /// `{a="b",c="d"}`, by name; the empty string for no labels. A name that comes twice keeps its last
    /// value.
    static func labels(_ labels: PrometheusRegistry.Labels) -> String {
        guard !labels.isEmpty else { return "" }
        var byName: [String: String] = [:]
        for (name, value) in labels { byName[PrometheusName.label(name)] = value }
        let all = byName.sorted { $0.key < $1.key }.map { "\($0.key)=\"\(escapedValue($0.value))\"" }
        return "{" + all.joined(separator: ",") + "}"
    }

    static func escapedValue(_ value: String) -> String { escaped(value, quotes: true) }
    static func escapedHelp(_ text: String) -> String { escaped(text, quotes: false) }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    static func append(
        _ instrument: PrometheusRegistry.Instrument, _ name: String, labels: String, to text: inout String
    ) {
        switch instrument {
        case .counter(let counter): text += "\(name)\(labels) \(counter.value)\n"
        case .gauge(let gauge): text += "\(name)\(labels) \(number(gauge.value))\n"
        case .reading(let read), .readingCounter(let read): text += "\(name)\(labels) \(number(read()))\n"
        case .histogram(let histogram):
            let (counts, sum) = histogram.contents
            let divisor = Double(histogram.scale.divisor)
            append(
                ReadHistogram(
                    bounds: histogram.scale.bounds.map { Double($0) / divisor }, counts: counts,
                    sum: Double(sum) / divisor), name, labels: labels, to: &text)
        case .readingHistogram(let read): append(read(), name, labels: labels, to: &text)
        }
    }

    private static func append(
        _ histogram: ReadHistogram, _ name: String, labels: String, to text: inout String
    ) {
        // Cumulative, as the format wants it; `+Inf` is the same as `_count`.
        var total: UInt64 = 0
        for (index, count) in histogram.counts.enumerated() {
            total &+= count
            let bounds = histogram.bounds
            let bound = index < bounds.count ? number(bounds[index]) : "+Inf"
            let rest = labels.isEmpty ? "" : "," + labels.dropFirst().dropLast()
            text += "\(name)_bucket{le=\"\(bound)\"\(rest)} \(total)\n"
        }
        text += "\(name)_sum\(labels) \(number(histogram.sum))\n"
        text += "\(name)_count\(labels) \(total)\n"
    }

    /// A number as Go reads it.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if value == value.rounded(), abs(value) < 1e15 { return "\(Int64(value))" }
        return "\(value)"
    }
}

/// A histogram as a scrape shows it: how many values fell into each bucket, one bucket more than bounds.
public struct ReadHistogram: Sendable {
    public var bounds: [Double]
    public var counts: [UInt64]
    public var sum: Double
    public init(bounds: [Double], counts: [UInt64], sum: Double) {
        self.bounds = bounds
        self.counts = counts
        self.sum = sum
    }
}
