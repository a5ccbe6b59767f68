import Model

// The laws of a connection of HTTP/1.1: they must hold when a request begins. A connection has one responder,
// and the handler would never hear of the end of another one.

extension HTTP1Connection {
    /// The first law that a beginning request would break; `nil` where it may begin.
    var brokenInvariant: String? {
        if isSwitching { return "a request begins on a connection that becomes a WebSocket" }
        if current != nil { return "a request begins while another is open" }
        return nil
    }

    /// Runs when a request begins. A release build, which does not check the laws, ends a responder that is
    /// still open.
    func endFormer() {
        #if DEBUG
            LawWatch.demand(brokenInvariant)
        #endif
        if let current { end(current) }
    }
}
