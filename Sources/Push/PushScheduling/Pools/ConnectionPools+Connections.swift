import Model

// What happens to connections and streams.

extension ConnectionPools {
    /// The connection is ready: requests may leave.
    public mutating func opened(_ id: APNsConnectionID, now: MonotonicTime) {
        guard let connection = connections[id], connection.state == .connecting else { return }
        connecting -= 1
        connection.state = .open
        connection.opened = now
        (connection.heard, connection.used, connection.busy) = (now, now, now)
        effects.append(.news(connection.pool.key, .connected))
        plan(connection.pool, now)
        checkInvariants()
    }

    /// The service's bound of streams (SETTINGS_MAX_CONCURRENT_STREAMS), as it holds from now on.
    public mutating func allowed(_ streams: Int, on id: APNsConnectionID, now: MonotonicTime) {
        guard let connection = connections[id] else { return }
        var streams = streams
        #if DEBUG
            if planted.contains(.keepBound), connection.isProven {
                streams = max(streams, connection.peerMax)
            }
        #endif
        connection.peerMax = streams
        connection.over = connection.open
        plan(connection.pool, now)
        checkInvariants()
    }

    /// Bytes came.
    public mutating func heard(_ id: APNsConnectionID, now: MonotonicTime) {
        guard let connection = connections[id] else { return }
        connection.heard = now
        guard connection.pinged != nil else { return }
        connection.pinged = nil
        lowerWake(for: connection.pool, now)
    }

    /// The connection's socket takes no more bytes, or takes some again.
    public mutating func blocked(_ isBlocked: Bool, _ id: APNsConnectionID, now: MonotonicTime) {
        guard let connection = connections[id] else { return }
        connection.isBlocked = isBlocked
        plan(connection.pool, now)
    }

    /// A whole answer came, or its header block at least.
    ///
    /// - Parameter status: 2xx and 410 show that the service takes the connection's token, because Apple
    ///   speaks of a device's registration with the topic only to a sender that may use the topic. Other
    ///   refusals may come before Apple looks at the token.
    public mutating func answered(_ ticket: Ticket, status: Int, now: MonotonicTime) {
        guard let connection = release(ticket, now) else { return }
        requests[ticket] = nil
        connection.unanswered = 0
        connection.answers += 1
        if (200..<300).contains(status) || status == 410 {
            connection.isProven = true
            connection.pause = .zero
        }
        settle(connection, now)
    }

    /// The shell could not prepare the request, and has answered it.
    public mutating func notPrepared(_ ticket: Ticket, now: MonotonicTime) {
        guard let connection = release(ticket, now) else { return }
        requests[ticket] = nil
        settle(connection, now)
    }

    /// The service has surely not processed the request: REFUSED_STREAM, a stream above a GOAWAY's last one,
    /// or a request of which no byte left.
    public mutating func refused(_ ticket: Ticket, reason: String, now: MonotonicTime) {
        guard let connection = release(ticket, now) else { return }
        if connection.state == .open, !connection.isPaused(now) {
            connection.pause = min(
                max(connection.pause * 2, settings.refusedPauseMin), settings.refusedPauseMax)
            connection.pausedUntil = now.advanced(by: connection.pause)
        }
        requeue(ticket, reason: reason, now)
        settle(connection, now)
    }

    /// The request's stream ended without an answer.
    public mutating func lost(_ ticket: Ticket, reason: String, now: MonotonicTime) {
        guard let connection = release(ticket, now) else { return }
        #if DEBUG
            if planted.contains(.resendLost) {
                requeue(ticket, reason: reason, now)
                return settle(connection, now)
            }
        #endif
        requests[ticket] = nil
        effects.append(.answer(ticket, .failed(reason)))
        settle(connection, now)
    }

    /// Takes a request off its connection.
    private mutating func release(_ ticket: Ticket, _ now: MonotonicTime) -> Connection? {
        guard let connection = requests[ticket]?.connection else { return nil }
        requests[ticket]?.connection = nil
        connection.open -= 1
        connection.over = min(connection.over, connection.open)
        connection.used = now
        return connection
    }

    private mutating func settle(_ connection: Connection, _ now: MonotonicTime) {
        forgetDone(connection)
        if connection.state == .draining, connection.open == 0 {
            close(connection, reason: "the connection was given up", isOrderly: true)
        }
        plan(connection.pool, now)
        checkInvariants()
    }

    /// Drops what is done from the front of the line of deadlines.
    func forgetDone(_ connection: Connection) {
        while let first = connection.left.first, !isUnderWay(first.ticket, tries: first.tries, on: connection)
        {
            _ = connection.left.popFirst()
        }
    }

    func isUnderWay(_ ticket: Ticket, tries: Int, on connection: Connection) -> Bool {
        guard let request = requests[ticket] else { return false }
        return request.connection === connection && request.tries == tries
    }

    // MARK: Ends

    /// The service ends the connection in order. `reason`: the text in the frame's debug data.
    public mutating func goneAway(_ id: APNsConnectionID, reason: String?, now: MonotonicTime) {
        guard let connection = connections[id] else { return }
        if !connection.isGoAwayTold || reason != nil && !connection.isReasonTold {
            effects.append(.news(connection.pool.key, .goAway(reason: reason)))
        }
        connection.isGoAwayTold = true
        if reason != nil { connection.isReasonTold = true }
        #if DEBUG
            if planted.contains(.ignoreGoAway) { return }
        #endif
        drain(connection, isAtOnce: reason == "Shutdown", now)
    }

    /// The caller wants another connection in place of this one, or of all of the pool.
    public mutating func renew(_ key: APNsPool, connection id: APNsConnectionID?, now: MonotonicTime) {
        guard let pool = pools[key] else { return }
        for connection in pool.connections where id == nil || connection.id == id {
            drain(connection, isAtOnce: true, now)
        }
    }

    private mutating func drain(_ connection: Connection, isAtOnce: Bool, _ now: MonotonicTime) {
        guard connection.state == .open else { return }
        judge(connection, isAtOnce: isAtOnce, now)
        connection.state = .draining
        settle(connection, now)
    }

    /// The connection is gone, or could not be made. `unsent`: requests of which no byte has left.
    public mutating func ended(
        _ id: APNsConnectionID, reason: String, unsent: Set<Ticket> = [], now: MonotonicTime
    ) {
        guard let connection = connections.removeValue(forKey: id) else { return }
        let pool = connection.pool
        if connection.opened == nil { connecting -= 1 }
        judge(connection, isAtOnce: false, now)
        let (why, news) = connection.end(reason)
        if let news { effects.append(.news(pool.key, news)) }
        pool.connections.removeAll { $0 === connection }
        for entry in connection.left where isUnderWay(entry.ticket, tries: entry.tries, on: connection) {
            if unsent.contains(entry.ticket) {
                requeue(entry.ticket, reason: why, now)
            } else {
                requests[entry.ticket] = nil
                effects.append(.answer(entry.ticket, .failed(why)))
            }
        }
        plan(pool, now)
        checkInvariants()
    }

    /// `isOrderly`: nothing is wrong with the connection.
    mutating func close(_ connection: Connection, reason: String, isOrderly: Bool) {
        guard !connection.isClosing else { return }
        connection.state = .closing(reason: reason, isOrderly: isOrderly)
        effects.append(.close(connection.id))
    }

    /// Decides, once for each connection, when the pool may begin the next one. `isAtOnce`: the service or
    /// the caller has asked for another connection. That is granted once if connections do not last.
    private mutating func judge(_ connection: Connection, isAtOnce: Bool, _ now: MonotonicTime) {
        guard !connection.isJudged else { return }
        connection.isJudged = true
        // A connection that the machine itself gives up is no evidence about the service.
        if case .closing(_, isOrderly: true) = connection.state { return }
        let pool = connection.pool
        #if DEBUG
            if planted.contains(.connectAtOnce) {
                pool.connectAt = now
                return
            }
        #endif
        let isStable = connection.isStable(now, settings)
        let isGranted = isAtOnce && (isStable || pool.failures == 0)
        pool.failures = isStable ? 0 : pool.failures + 1
        let spaced = max(connection.began.advanced(by: settings.connectSpacing), now)
        if isGranted {
            pool.connectAt = max(pool.connectAt, spaced)
        } else {
            let pause =
                isStable
                ? random.next(upperBound: settings.backoffMin + .nanoseconds(1)) : backoff(pool.failures)
            pool.connectAt = max(pool.connectAt, spaced, now.advanced(by: pause))
        }
    }

    /// Doubled with each failure. Chance takes up to a half off, so that nodes do not come together.
    private mutating func backoff(_ failures: Int) -> TimeSpan {
        let most = min(settings.backoffMin.doubled(times: failures), settings.backoffMax)
        return most - random.next(upperBound: most / 2 + .nanoseconds(1))
    }
}
