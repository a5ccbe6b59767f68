import Foundation
import Testing

@testable import Node

@Suite("Metrics for Prometheus") struct PrometheusTests {
    func lines(_ registry: PrometheusRegistry) -> [String] {
        registry.text().split(separator: "\n").map(String.init)
    }

    @Test("a family has its help and type once, then its series by labels; names have prefix and unit")
    func families() {
        let registry = PrometheusRegistry()
        registry.counter("sends", "Sends by outcome.", labels: [("outcome", "refused")]).add(2)
        registry.counter("sends", "Sends by outcome.", labels: [("outcome", "accepted")]).add()
        registry.gauge("streams", "Open streams.").set(7)
        registry.gauge("resident_memory_bytes", "Memory.") { 1.5 }
        registry.info("build", "What runs.", labels: [("version", "1.2")])
        #expect(
            lines(registry) == [
                "# HELP tidecast_build_info What runs.", "# TYPE tidecast_build_info gauge",
                "tidecast_build_info{version=\"1.2\"} 1",
                "# HELP tidecast_metrics_dropped_series_total Series that are not shown because there are too many.",
                "# TYPE tidecast_metrics_dropped_series_total counter",
                "tidecast_metrics_dropped_series_total 0",
                "# HELP tidecast_resident_memory_bytes Memory.",
                "# TYPE tidecast_resident_memory_bytes gauge",
                "tidecast_resident_memory_bytes 1.5",
                "# HELP tidecast_sends_total Sends by outcome.", "# TYPE tidecast_sends_total counter",
                "tidecast_sends_total{outcome=\"accepted\"} 1", "tidecast_sends_total{outcome=\"refused\"} 2",
                "# HELP tidecast_streams Open streams.", "# TYPE tidecast_streams gauge",
                "tidecast_streams 7",
            ])
        #expect(registry.text().hasSuffix("\n"))
    }

    @Test("a histogram's buckets add up, end with +Inf, and show seconds for nanoseconds")
    func histogram() throws {
        let registry = PrometheusRegistry()
        let scale = try #require(HistogramScale(bounds: [1_000_000, 2_500_000_000], divisor: 1_000_000_000))
        let histogram = registry.histogram("wait_seconds", "Waiting.", scale: scale, labels: [("a", "b")])
        let cell = histogram.cell()
        cell.record(1_000_000)
        cell.record(1_000_001)
        histogram.observe(3_000_000_000)
        #expect(
            lines(registry).filter { $0.hasPrefix("tidecast_wait") } == [
                "tidecast_wait_seconds_bucket{le=\"0.001\",a=\"b\"} 1",
                "tidecast_wait_seconds_bucket{le=\"2.5\",a=\"b\"} 2",
                "tidecast_wait_seconds_bucket{le=\"+Inf\",a=\"b\"} 3",
                "tidecast_wait_seconds_sum{a=\"b\"} 3.002000001", "tidecast_wait_seconds_count{a=\"b\"} 3",
            ])
        #expect(HistogramScale(bounds: [2, 1], divisor: 1) == nil)
        #expect(HistogramScale(bounds: [], divisor: 1) == nil)
        #expect(HistogramScale(bounds: [1], divisor: 0) == nil)
    }

    @Test("label values and help are escaped; names are made into what Prometheus allows")
    func escaping() {
        let registry = PrometheusRegistry()
        registry.counter(
            "a.b-c", "one\\two\nthree \"four\"", labels: [("x-y", "q\"\\\n"), ("0", ""), ("__n", "ü")]
        )
        .add()
        let found = lines(registry).filter { $0.contains("a_b_c") }
        #expect(
            found == [
                #"# HELP tidecast_a_b_c_total one\\two\nthree "four""#,
                "# TYPE tidecast_a_b_c_total counter",
                #"tidecast_a_b_c_total{label_0="",label___n="ü",x_y="q\"\\\n"} 1"#,
            ])
    }

    @Test("the same name and labels are the same instrument, in whatever order the labels come")
    func same() {
        let registry = PrometheusRegistry()
        registry.counter("a", "", labels: [("x", "1"), ("y", "2")]).add()
        registry.counter("a", "", labels: [("y", "2"), ("x", "1")]).add()
        #expect(registry.counter("a_total", "", labels: [("x", "1"), ("y", "2")]).value == 2)
    }

    @Test("series past the bound, and a name used for two types, are dropped and counted")
    func bounds() {
        let registry = PrometheusRegistry()
        for number in 0..<PrometheusRegistry.seriesCountMax + 10 {
            registry.counter("many", "", labels: [("n", "\(number)")]).add()
        }
        registry.gauge("many_total", "").set(1)
        let text = lines(registry)
        #expect(
            text.filter { $0.hasPrefix("tidecast_many_total{") }.count == PrometheusRegistry.seriesCountMax)
        #expect(text.contains("tidecast_metrics_dropped_series_total 11"))
    }

    @Test("numbers are written as Prometheus reads them")
    func numbers() {
        let expected: [(Double, String)] = [
            (0, "0"), (-3, "-3"), (0.25, "0.25"), (1e20, "1e+20"), (.nan, "NaN"), (.infinity, "+Inf"),
            (-.infinity, "-Inf"), (5e-05, "5e-05"),
        ]
        for (value, text) in expected { #expect(PrometheusText.number(value) == text) }
    }

    @Test("many threads: nothing is lost")
    func threads() async {
        let registry = PrometheusRegistry()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let counter = registry.counter("hits", "")
                    let cell = counter.cell()
                    let histogram = registry.histogram("sizes_bytes", "", scale: .bytes)
                    let gauge = registry.gauge("level", "")
                    for _ in 0..<10_000 {
                        counter.add()
                        cell.increment()
                        histogram.observe(100)
                        gauge.add(1)
                    }
                }
            }
        }
        #expect(registry.counter("hits", "").value == 80_000)
        #expect(registry.histogram("sizes_bytes", "", scale: .bytes).contents.sum == 4_000_000)
        #expect(registry.gauge("level", "").value == 40_000)
    }
}
