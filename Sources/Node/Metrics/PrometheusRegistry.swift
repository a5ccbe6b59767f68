import Synchronization

/// All metrics of a process, and their text for Prometheus (exposition format 0.0.4).
///
/// Every name begins with `tidecast_` and ends with its unit: `_total` for counters, `_seconds`, `_bytes`,
/// `_info`. Labels are few and bounded: a family keeps at most `seriesCountMax` series. The registry counts
/// further series (`tidecast_metrics_dropped_series_total`) and does not show them. A topic, a device or a
/// token is never a label.
public final class PrometheusRegistry: Sendable {
    public static let contentType = "text/plain; version=0.0.4; charset=utf-8"
    public static let seriesCountMax = 256
    public static let familyCountMax = 1024

    public typealias Labels = [(String, String)]

    enum Instrument: Sendable {
        case counter(MetricCounter)
        case gauge(MetricGauge)
        /// Read when the text is made.
        case reading(@Sendable () -> Double)
        case readingCounter(@Sendable () -> Double)
        case histogram(MetricHistogram)
        case readingHistogram(@Sendable () -> ReadHistogram)

        var type: String {
            switch self {
            case .counter, .readingCounter: "counter"
            case .gauge, .reading: "gauge"
            case .histogram, .readingHistogram: "histogram"
            }
        }
    }

    struct Family: Sendable {
        var help: String
        var type: String
        /// By the text of their labels.
        var series: [String: Instrument] = [:]
    }

    private let families = Mutex<[String: Family]>([:])
    private let dropped = MetricCounter()

    public init() {
        register(
            "metrics_dropped_series_total", "Series that are not shown because there are too many.",
            labels: [],
            made: .counter(dropped))
    }

    // MARK: Instruments

    /// The counter with that name and those labels; the same one each time. Ask once, and keep the counter.
    public func counter(_ name: String, _ help: String, labels: Labels = []) -> MetricCounter {
        let made = Instrument.counter(MetricCounter())
        if case .counter(let counter) = find(name, suffix: "_total", help, labels: labels, made: made) {
            return counter
        }
        return MetricCounter()
    }

    public func gauge(_ name: String, _ help: String, labels: Labels = []) -> MetricGauge {
        let made = Instrument.gauge(MetricGauge())
        if case .gauge(let gauge) = find(name, suffix: "", help, labels: labels, made: made) { return gauge }
        return MetricGauge()
    }

    public func histogram(
        _ name: String, _ help: String, scale: HistogramScale = .seconds, labels: Labels = []
    ) -> MetricHistogram {
        let made = Instrument.histogram(MetricHistogram(scale))
        if case .histogram(let histogram) = find(name, suffix: "", help, labels: labels, made: made) {
            return histogram
        }
        return MetricHistogram(scale)
    }

    /// A gauge that is read at each scrape. `read` runs on the thread that scrapes and must be quick.
    public func gauge(
        _ name: String, _ help: String, labels: Labels = [], read: @escaping @Sendable () -> Double
    ) {
        register(PrometheusName.make(name, suffix: ""), help, labels: labels, made: .reading(read))
    }

    /// A counter that other code keeps; each scrape reads it.
    public func counter(
        _ name: String, _ help: String, labels: Labels = [], read: @escaping @Sendable () -> Double
    ) {
        register(
            PrometheusName.make(name, suffix: "_total"), help, labels: labels, made: .readingCounter(read))
    }

    /// A histogram that other code keeps; each scrape reads it.
    public func histogram(
        _ name: String, _ help: String, labels: Labels = [], read: @escaping @Sendable () -> ReadHistogram
    ) {
        register(PrometheusName.make(name, suffix: ""), help, labels: labels, made: .readingHistogram(read))
    }

    /// A constant 1 whose labels say something about the process, such as its version.
    public func info(_ name: String, _ help: String, labels: Labels) {
        register(PrometheusName.make(name, suffix: "_info"), help, labels: labels, made: .reading { 1 })
    }

    private func find(
        _ name: String, suffix: String, _ help: String, labels: Labels, made: Instrument
    ) -> Instrument? {
        register(PrometheusName.make(name, suffix: suffix), help, labels: labels, made: made)
    }

    /// The instrument with that name and those labels; `made` where there was none. `nil` where there is no
    /// room, or where the name has instruments of another type.
    @discardableResult
    private func register(_ name: String, _ help: String, labels: Labels, made: Instrument) -> Instrument? {
        let name = PrometheusName.make(name, suffix: "")
        let key = PrometheusText.labels(labels)
        let found = families.withLock { families -> Instrument? in
            if let family = families[name] {
                guard family.type == made.type else { return nil }
                if let instrument = family.series[key] { return instrument }
                guard family.series.count < PrometheusRegistry.seriesCountMax else { return nil }
                families[name]?.series[key] = made
                return made
            }
            guard families.count < PrometheusRegistry.familyCountMax else { return nil }
            families[name] = Family(help: help, type: made.type, series: [key: made])
            return made
        }
        if found == nil { dropped.add() }
        return found
    }

    // MARK: The text

    /// All metrics, families by name and series by labels.
    public func text() -> String {
        let families = families.withLock { $0 }
        var text = ""
        for (name, family) in families.sorted(by: { $0.key < $1.key }) where !family.series.isEmpty {
            text += "# HELP \(name) \(PrometheusText.escapedHelp(family.help))\n"
            text += "# TYPE \(name) \(family.type)\n"
            for (labels, instrument) in family.series.sorted(by: { $0.key < $1.key }) {
                PrometheusText.append(instrument, name, labels: labels, to: &text)
            }
        }
        return text
    }
}
