/// Resident memory of a server for each connection with one idle stream, and for each further stream.
public struct MemoryLoad: Sendable {
    public var connections = 10_000
    /// Streams on each connection; streams past the first are measured apart.
    public var streams = 1
    /// Seconds for which the server is left alone before its memory is read.
    public var settleSeconds = 3.0

    public init() {}

    public func run(_ target: Target) throws -> LoadReport {
        guard !target.process.pids.isEmpty else {
            throw LoadError("--pid is missing: name the server process to measure")
        }
        let poller = try Poller()
        let total = connections * streams
        var ways = StreamFleet.Streams()
        switch target.kind {
        case .tidecast:
            let (devices, _) = try Devices.register(total, at: target, on: poller)
            ways.path = { target.listenPath(devices.tokens[$0]) }
            ways.credential = { devices.credentials[$0] }
        case .redis: ways.path = { _ in "idle" }
        case .nchan, .nchanHTTP1: ways.path = { _ in "/sub/idle" }
        case .plain: throw LoadError("this server has no streams")
        }
        let fleet = StreamFleet(poller, target, streams: total)
        // Four times as long: memory that registering left behind goes back to the system meanwhile.
        poller.run(seconds: settleSeconds * 4) { false }
        let before = target.process.residentBytes() ?? 0
        var report = LoadReport("memory", unit: "connection")
        let watch = Stopwatch(target.process)
        try fleet.open(0..<connections, over: connections, ways)
        watch.read(into: &report)
        poller.run(seconds: settleSeconds) { false }
        let one = target.process.residentBytes() ?? 0
        report.operations = connections
        report.facts = [
            ("resident before, MiB", Double(before) / 1_048_576),
            ("resident with connections, MiB", Double(one) / 1_048_576),
            ("KiB a connection with one stream", Double(one - before) / 1024 / Double(connections)),
        ]
        if streams > 1 {
            try fleet.open(connections..<total, over: connections, ways)
            poller.run(seconds: settleSeconds) { false }
            let all = target.process.residentBytes() ?? 0
            report.facts += [
                ("resident with all streams, MiB", Double(all) / 1_048_576),
                ("KiB a further stream", Double(all - one) / 1024 / Double(total - connections)),
            ]
        }
        report.facts.append(("broken streams", Double(fleet.broken)))
        fleet.hangUp()
        return report
    }
}
