/// The deadlines of one connection, in seconds of the loop's coarse clock.
struct ConnectionDeadlines {
    let configuration: EdgeConfiguration
    private let opened: Int
    /// The second since which no request is open; `nil` while one is.
    private var idleSince: Int?
    /// The second since which the client has not read the written bytes.
    private var stuckSince: Int?

    /// `second`: when the connection began.
    init(_ configuration: EdgeConfiguration, second: Int) {
        self.configuration = configuration
        opened = second
        idleSince = second
    }

    /// Notes the connection's state, and returns true if the connection must be closed. `open`: the requests
    /// under way. `heading`: when the oldest request began whose header block is not whole; `receiving`: the
    /// same for a body. `stuck`: the client has not read the written bytes.
    mutating func noteState(
        _ second: Int, open: Int, heading: Int?, receiving: Int?, stuck: Bool
    ) -> Bool {
        idleSince = open > 0 ? nil : idleSince ?? second
        stuckSince = stuck ? stuckSince ?? second : nil
        if !hasBegun, second - opened > configuration.handshakeSeconds { return true }
        if let idleSince, second - idleSince > configuration.idleSeconds { return true }
        if let heading, second - heading > configuration.handshakeSeconds { return true }
        if let receiving, second - receiving > configuration.bodySeconds { return true }
        if let stuckSince, second - stuckSince > configuration.stuckSeconds { return true }
        return false
    }

    /// Whether one stream's request or answer has taken too long. Only the stream ends: behind a balancer the
    /// connection may carry other clients' streams.
    func isOver(_ second: Int, stream: Responder) -> Bool {
        if stream.owes { return second - stream.movedAt > configuration.stuckSeconds }
        let isReading = !stream.isReceived && stream.reading != nil
        return isReading && second - stream.began > configuration.bodySeconds
    }

    /// Whether the client has shown that it speaks the protocol: by a request's header block, or by HTTP/2's
    /// SETTINGS. Some clients connect long before they have a request.
    var hasBegun = false
}
