/// A line of the table of metrics (`Metric.all`): what `/metrics` shows, and `tidecast config metrics` and
/// docs/metrics.md list. A name ends with its unit. No topic, token or device is a label.
package struct Metric: Sendable {
    enum Kind: String { case counter, gauge, histogram }

    enum Value {
        case number(Double)
        case histogram(MetricHistogram)
    }

    /// The values of the labels, in the order of the metric's labels.
    typealias Series = (labels: [String], value: Value)

    let name: String
    let kind: Kind
    let help: String
    let labels: [String]
    /// Whether only a node of a cluster shows it.
    private(set) var isOfCluster = false
    /// Runs at each scrape, on a loop, and must be quick. A metric without series is not shown.
    let read: @Sendable (MetricSource) -> [Series]

    /// Without labels; not shown if `read` returns `nil`.
    static func counter(
        _ name: String, _ help: String, read: @escaping @Sendable (MetricSource) -> Int?
    ) -> Metric {
        Metric(name: name, kind: .counter, help: help, labels: []) { single(read($0)) }
    }

    static func gauge(
        _ name: String, _ help: String, read: @escaping @Sendable (MetricSource) -> Int?
    ) -> Metric {
        Metric(name: name, kind: .gauge, help: help, labels: []) { single(read($0)) }
    }

    /// A number for each list of labels' values.
    static func counter(
        _ name: String, _ help: String, by labels: String...,
        each: @escaping @Sendable (MetricSource) -> [([String], Double)]
    ) -> Metric {
        Metric(name: name, kind: .counter, help: help, labels: labels) { numbers(each($0)) }
    }

    static func gauge(
        _ name: String, _ help: String, by labels: String...,
        each: @escaping @Sendable (MetricSource) -> [([String], Double)]
    ) -> Metric {
        Metric(name: name, kind: .gauge, help: help, labels: labels) { numbers(each($0)) }
    }

    static func histogram(
        _ name: String, _ help: String, read: @escaping @Sendable (MetricSource) -> MetricHistogram
    ) -> Metric {
        Metric(name: name, kind: .histogram, help: help, labels: []) { [([], .histogram(read($0)))] }
    }

    private static func single(_ value: Int?) -> [Series] { value.map { [([], .number(Double($0)))] } ?? [] }

    private static func numbers(_ values: [([String], Double)]) -> [Series] {
        values.map { ($0.0, .number($0.1)) }
    }

    /// The same metric, of nodes of a cluster alone.
    var ofCluster: Metric {
        var metric = self
        metric.isOfCluster = true
        return metric
    }

    /// The table for docs/metrics.md.
    package static var page: [String] {
        ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
            + all.map { metric in
                let labels = metric.labels.map { "`\($0)`" }.joined(separator: ", ")
                let meaning = (metric.isOfCluster ? "In a cluster: " : "") + metric.help
                return "| `\(metric.name)` | \(metric.kind.rawValue) | \(labels) | \(meaning) |"
            }
    }
}

/// How many values fell into each bucket, one bucket more than bounds.
struct MetricHistogram {
    var bounds: [Double]
    var counts: [UInt64]
    var sum: Double
}

/// Prometheus' exposition format 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/
enum MetricText {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// For example:
    /// ```
    /// # HELP tidecast_deliveries_total Events handed to device streams.
    /// # TYPE tidecast_deliveries_total counter
    /// tidecast_deliveries_total{outcome="written"} 17
    /// ```
    static func append(_ metric: Metric, _ series: [Metric.Series], to text: inout String) {
        guard !series.isEmpty else { return }
        text += "# HELP \(metric.name) \(escaped(metric.help, quotes: false))\n"
        text += "# TYPE \(metric.name) \(metric.kind.rawValue)\n"
        for (values, value) in series {
            // By name, whatever the order in the table.
            let pairs = zip(metric.labels, values).map { "\($0)=\"\(escaped($1, quotes: true))\"" }.sorted()
            let labels = pairs.isEmpty ? "" : "{" + pairs.joined(separator: ",") + "}"
            switch value {
            case .number(let value): text += "\(metric.name)\(labels) \(number(value))\n"
            case .histogram(let histogram): append(histogram, metric.name, to: &text)
            }
        }
    }

    private static func append(_ histogram: MetricHistogram, _ name: String, to text: inout String) {
        // Cumulative, as the format wants it; `+Inf` is the same as `_count`.
        var total: UInt64 = 0
        for (index, count) in histogram.counts.enumerated() {
            total &+= count
            let bound = index < histogram.bounds.count ? number(histogram.bounds[index]) : "+Inf"
            text += "\(name)_bucket{le=\"\(bound)\"} \(total)\n"
        }
        text += "\(name)_sum \(number(histogram.sum))\n\(name)_count \(total)\n"
    }

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

    /// A number as Go reads it.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
        if value == value.rounded(), abs(value) < 1e15 { return "\(Int64(value))" }
        return "\(value)"
    }
}
