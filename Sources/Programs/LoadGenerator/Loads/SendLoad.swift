/// POSTs of one body to one path, in a closed loop.
public struct SendLoad {
    public var connections = 16
    public var streams = 100
    public var warmUpSeconds = 2.0
    public var seconds = 10.0
    public var path: String
    public var body: [UInt8]

    public init(path: String, body: [UInt8]) {
        self.path = path
        self.body = body
    }

    public func run(_ target: Target) throws -> LoadReport {
        let poller = try Poller()
        let source = OneRequest(head: target.head(post: path), body: body)
        let pump = try RequestPump(
            poller, to: target.address, connections: connections, streams: streams, keepsBodies: false,
            source: source)
        pump.start()
        poller.run(seconds: warmUpSeconds) { pump.active == 0 }
        pump.forget()
        let watch = Stopwatch(target.process)
        poller.run(seconds: seconds) { pump.active == 0 }
        var report = LoadReport("send", unit: "request")
        watch.read(into: &report)
        report.operations = pump.answers
        report.statuses = pump.statuses
        report.latencies = [("answer", pump.latency)]
        report.facts = [("body bytes", Double(body.count))]
        source.isOver = true
        poller.run(seconds: 5) { pump.active == 0 }
        pump.hangUp()
        if let refusal = pump.firstRefusal, report.statuses[200] == nil { throw LoadError(refusal) }
        return report
    }
}

private final class OneRequest: RequestSource {
    let head: RequestHead
    let body: [UInt8]
    var isOver = false

    init(head: RequestHead, body: [UInt8]) {
        self.head = head
        self.body = body
    }

    func next(_ index: Int) -> (head: RequestHead, body: [UInt8])? { isOver ? nil : (head, body) }
    func answered(_ index: Int, status: Int, body: [UInt8]) {}
}
