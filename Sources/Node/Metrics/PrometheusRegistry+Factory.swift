import Metrics

// The registry as a backend of swift-metrics, for packages that report through it. Tidecast's own code keeps
// typed instruments instead, because looking an instrument up costs a lock.

extension PrometheusRegistry: MetricsFactory {
    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        FactoryCounter(counter(label, label, labels: dimensions), label, labels: dimensions)
    }

    public func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        guard aggregate else {
            return FactoryGauge(gauge(label, label, labels: dimensions), label, labels: dimensions)
        }
        return FactoryRecorder(
            histogram(label, label, scale: .counts, labels: dimensions), label, labels: dimensions)
    }

    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        FactoryGauge(gauge(label, label, labels: dimensions), label, labels: dimensions)
    }

    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        let name = PrometheusName.make(label, suffix: "_seconds")
        return FactoryTimer(
            histogram(name, label, scale: .seconds, labels: dimensions), name, labels: dimensions)
    }

    public func destroyCounter(_ handler: any CounterHandler) {
        if let handler = handler as? FactoryCounter { remove(handler.name, suffix: "_total", handler.labels) }
    }
    public func destroyRecorder(_ handler: any RecorderHandler) {
        if let handler = handler as? any FactoryHandler { remove(handler.name, suffix: "", handler.labels) }
    }
    public func destroyMeter(_ handler: any MeterHandler) {
        if let handler = handler as? any FactoryHandler { remove(handler.name, suffix: "", handler.labels) }
    }
    public func destroyTimer(_ handler: any TimerHandler) {
        if let handler = handler as? any FactoryHandler { remove(handler.name, suffix: "", handler.labels) }
    }
}

/// Knows its name and labels, so that the registry can remove it.
protocol FactoryHandler: AnyObject, Sendable {
    var name: String { get }
    var labels: PrometheusRegistry.Labels { get }
}

final class FactoryCounter: FactoryHandler, CounterHandler {
    let name: String
    let labels: PrometheusRegistry.Labels
    private let counter: MetricCounter
    init(_ counter: MetricCounter, _ name: String, labels: PrometheusRegistry.Labels) {
        self.counter = counter
        self.name = name
        self.labels = labels
    }
    func increment(by amount: Int64) { if amount > 0 { counter.add(UInt64(amount)) } }
    func reset() { counter.reset() }
}

final class FactoryGauge: FactoryHandler, MeterHandler, RecorderHandler {
    let name: String
    let labels: PrometheusRegistry.Labels
    private let gauge: MetricGauge
    init(_ gauge: MetricGauge, _ name: String, labels: PrometheusRegistry.Labels) {
        self.gauge = gauge
        self.name = name
        self.labels = labels
    }
    func set(_ value: Int64) { gauge.set(Double(value)) }
    func set(_ value: Double) { gauge.set(value) }
    func increment(by amount: Double) { gauge.add(amount) }
    func decrement(by amount: Double) { gauge.add(-amount) }
    func record(_ value: Int64) { gauge.set(Double(value)) }
    func record(_ value: Double) { gauge.set(value) }
}

final class FactoryRecorder: FactoryHandler, RecorderHandler {
    let name: String
    let labels: PrometheusRegistry.Labels
    private let histogram: MetricHistogram
    init(_ histogram: MetricHistogram, _ name: String, labels: PrometheusRegistry.Labels) {
        self.histogram = histogram
        self.name = name
        self.labels = labels
    }
    func record(_ value: Int64) { histogram.observe(UInt64(max(value, 0))) }
    func record(_ value: Double) {
        histogram.observe(UInt64(exactly: value.rounded()) ?? (value > 1 ? .max : 0))
    }
}

final class FactoryTimer: FactoryHandler, TimerHandler {
    let name: String
    let labels: PrometheusRegistry.Labels
    private let histogram: MetricHistogram
    init(_ histogram: MetricHistogram, _ name: String, labels: PrometheusRegistry.Labels) {
        self.histogram = histogram
        self.name = name
        self.labels = labels
    }
    func recordNanoseconds(_ duration: Int64) { histogram.observe(UInt64(max(duration, 0))) }
}
