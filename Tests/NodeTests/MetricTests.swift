import Testing

@testable import Node

@Suite("Metrics for Prometheus") struct MetricTests {
    private func lines(_ metric: Metric, _ series: [Metric.Series]) -> [String] {
        var text = ""
        MetricText.append(metric, series, to: &text)
        #expect(text.isEmpty || text.hasSuffix("\n"))
        return text.split(separator: "\n").map(String.init)
    }

    @Test("are each in the table once, with a name that ends with its unit")
    func table() {
        #expect(Set(Metric.all.map(\.name)).count == Metric.all.count)
        for metric in Metric.all {
            #expect(metric.name.wholeMatch(of: /tidecast_[a-z_]*[a-z]/) != nil, "\(metric.name)")
            #expect((metric.kind == .counter) == metric.name.hasSuffix("_total"), "\(metric.name)")
            #expect(metric.help.hasSuffix(".") && !metric.help.contains("|"), "\(metric.name)")
            for label in metric.labels { #expect(label.wholeMatch(of: /[a-z]+/) != nil) }
        }
    }

    @Test("have their help and type once, then their series; without series they are not shown")
    func series() {
        let metric = Metric.counter("tidecast_sends_total", "Sends\nby \"outcome\" \\.", by: "b", "a") { _ in
            []
        }
        #expect(
            lines(metric, [(["q\"\\\nü", "x"], .number(2)), (["", "y"], .number(1.5))]) == [
                #"# HELP tidecast_sends_total Sends\nby "outcome" \\."#,
                "# TYPE tidecast_sends_total counter",
                #"tidecast_sends_total{a="x",b="q\"\\\nü"} 2"#, #"tidecast_sends_total{a="y",b=""} 1.5"#,
            ])
        #expect(lines(metric, []) == [])
    }

    @Test("of times are of all loops, in seconds, with cumulative buckets up to +Inf")
    func histogram() {
        let loops = [OperationTimes(), OperationTimes()]
        loops[0].record(50_000)
        loops[0].record(50_001)
        loops[1].record(11_000_000_000)
        let metric = Metric.histogram("tidecast_wait_seconds", "Waiting.") { _ in OperationTimes.histogram([])
        }
        let found = lines(metric, [([], .histogram(OperationTimes.histogram(loops)))])
        #expect(
            found[1...4] == [
                "# TYPE tidecast_wait_seconds histogram", "tidecast_wait_seconds_bucket{le=\"5e-05\"} 1",
                "tidecast_wait_seconds_bucket{le=\"0.0001\"} 2",
                "tidecast_wait_seconds_bucket{le=\"0.00025\"} 2",
            ])
        #expect(
            found.suffix(4) == [
                "tidecast_wait_seconds_bucket{le=\"10\"} 2", "tidecast_wait_seconds_bucket{le=\"+Inf\"} 3",
                "tidecast_wait_seconds_sum 11.000100001", "tidecast_wait_seconds_count 3",
            ])
    }

    @Test("are written with numbers as Prometheus reads them")
    func numbers() {
        let expected: [(Double, String)] = [
            (0, "0"), (-3, "-3"), (0.25, "0.25"), (1e20, "1e+20"), (.nan, "NaN"), (.infinity, "+Inf"),
            (-.infinity, "-Inf"), (5e-05, "5e-05"),
        ]
        for (value, text) in expected { #expect(MetricText.number(value) == text) }
    }
}
