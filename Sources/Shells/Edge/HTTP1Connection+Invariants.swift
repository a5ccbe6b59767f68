import Model

// The invariants of a connection of HTTP/1.1: they must hold when a request begins. A connection has one
// responder, and the handler would never learn of the end of another one.

extension HTTP1Connection {
    /// The first invariant that a beginning request would break; `nil` if it may begin.
    var brokenInvariant: String? {
        if isSwitching { return "a request begins on a connection that becomes a WebSocket" }
        if current != nil { return "a request begins while another is open" }
        return nil
    }

    /// Runs when a request begins. A release build, which does not check the invariants, ends a responder
    /// that is still open.
    func endFormer() {
        #if DEBUG
            InvariantSchedule.demand(brokenInvariant)
        #endif
        if let current { end(current) }
    }
}
