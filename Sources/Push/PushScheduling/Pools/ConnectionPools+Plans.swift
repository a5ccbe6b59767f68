import Model

// What the machine does next with a pool, and when it must look again.

extension ConnectionPools {
    /// Puts a pool in turns, begins a connection, or forgets the pool. Must be called after each change of
    /// the pool.
    mutating func plan(_ pool: Pool, _ now: MonotonicTime) {
        if pool.first != nil {
            if pool.roomiest(now, settings) == nil {
                connectWhereNeeded(pool, now)
            } else if !pool.isInTurns {
                pool.isInTurns = true
                turns.append(pool)
            }
        } else if pool.connections.isEmpty {
            // What the pool knows of failures stays a while.
            let forgetAt = pool.connectAt.advanced(by: pool.failures > 0 ? settings.backoffMax : .zero)
            if forgetAt <= now, !pool.isInTurns { pools[pool.key] = nil } else { lower(wakeTo: forgetAt) }
            return
        }
        lowerWake(for: pool, now)
    }

    // MARK: New connections

    private mutating func connectWhereNeeded(_ pool: Pool, _ now: MonotonicTime) {
        guard mayNeedConnection(pool, now) else { return }
        if pool.connectAt > now { return lower(wakeTo: pool.connectAt) }
        if connections.count >= settings.connectionsMax { closeIdle(now) }
        pool.connectAt = now.advanced(by: settings.connectSpacing)
        guard connections.count < settings.connectionsMax, connecting < settings.connectingMax else {
            return lower(wakeTo: pool.connectAt)
        }
        let connection = makeConnection(of: pool, now)
        effects.append(.connect(connection.id, pool.key))
    }

    /// Whether another connection would help the pool, in which no connection has room.
    private mutating func mayNeedConnection(_ pool: Pool, _ now: MonotonicTime) -> Bool {
        guard pool.connections.count < 2 * settings.connectionsPerPoolMax else { return false }
        var standing = 0
        for connection in pool.connections {
            switch connection.state {
            case .connecting: return false
            case .open:
                // Each connection proves itself first; and a service that refuses needs less load, not more.
                if !connection.isProven || connection.isPaused(now) { return false }
                standing += 1
            case .draining, .closing: break
            }
        }
        guard standing > 0 else { return true }
        guard standing < settings.connectionsPerPoolMax, connections.count * 2 < settings.connectionsMax,
            let first = pool.first,
            let request = requests[first]
        else { return false }
        let loaded = request.since.advanced(by: settings.loadWait)
        if loaded > now { lower(wakeTo: loaded) }
        return loaded <= now
    }

    /// Makes room for another pool's connection: ends the connection that has had no request for the longest
    /// time.
    private mutating func closeIdle(_ now: MonotonicTime) {
        let idle = connections.values.filter {
            $0.state == .open && $0.open == 0 && $0.pool.first == nil
                && now.since($0.used) >= settings.stableAfter
        }
        let longest = idle.min { ($0.used, $0.id.number) < ($1.used, $1.id.number) }
        if let longest { close(longest, reason: "another pool needs a connection", isOrderly: true) }
    }

    // MARK: Time

    public mutating func woke(now: MonotonicTime) {
        nextWake = nil
        for pool in pools.values.sorted(by: { $0.number < $1.number }) {
            expire(pool, now)
            for connection in pool.connections { look(at: connection, now) }
            plan(pool, now)
        }
        checkInvariants()
    }

    private mutating func look(at connection: Connection, _ now: MonotonicTime) {
        switch connection.state {
        case .closing: return
        case .connecting:
            guard now.since(connection.began) >= settings.connectMax else { return }
            let text = "no connection within \(settings.connectMax.milliseconds) ms"
            return close(connection, reason: text, isOrderly: false)
        case .open, .draining: break
        }
        if let until = connection.pausedUntil, until <= now { connection.pausedUntil = nil }
        cancelLate(connection, now)
        if connection.unanswered >= settings.unansweredMax {
            close(connection, reason: "the service does not answer", isOrderly: false)
        } else if let pinged = connection.pinged, now.since(pinged) >= settings.pingMax {
            close(connection, reason: "the service is silent", isOrderly: false)
        } else if connection.open == 0, now.since(connection.used) >= settings.idleMax {
            close(connection, reason: "the connection was idle", isOrderly: true)
        } else if connection.pinged == nil, let ping = pingTime(connection), ping <= now {
            connection.pinged = now
            effects.append(.ping(connection.id))
        }
    }

    /// Resets the streams whose answers have taken too long.
    private mutating func cancelLate(_ connection: Connection, _ now: MonotonicTime) {
        for entry in connection.left {
            guard now.since(entry.at) >= settings.answerMax else { return }
            guard isUnderWay(entry.ticket, tries: entry.tries, on: connection),
                requests[entry.ticket]?.isCancelled == false
            else { continue }
            requests[entry.ticket]?.isCancelled = true
            connection.unanswered += 1
            effects.append(.cancel(entry.ticket, connection.id))
        }
    }

    /// When to ask whether the service is still there; `nil` for never.
    private func pingTime(_ connection: Connection) -> MonotonicTime? {
        if connection.open > 0 {
            let since = max(connection.heard, connection.busy)
            return settings.busyPing == .zero ? nil : since.advanced(by: settings.busyPing)
        }
        return settings.idlePing == .zero ? nil : connection.heard.advanced(by: settings.idlePing)
    }

    private mutating func lower(wakeTo time: MonotonicTime) {
        nextWake = nextWake.map { min($0, time) } ?? time
    }

    mutating func lowerWake(for pool: Pool, _ now: MonotonicTime) {
        if let first = pool.first, let request = requests[first] {
            lower(wakeTo: request.since.advanced(by: settings.waitMax))
        }
        for connection in pool.connections {
            switch connection.state {
            case .closing: continue
            case .connecting: lower(wakeTo: connection.began.advanced(by: settings.connectMax))
            case .open, .draining:
                if let until = connection.pausedUntil { lower(wakeTo: until) }
                // With the outcome of a cancelled request the machine looks again.
                if let first = connection.left.first, requests[first.ticket]?.isCancelled != true {
                    lower(wakeTo: first.at.advanced(by: settings.answerMax))
                }
                if let pinged = connection.pinged {
                    lower(wakeTo: pinged.advanced(by: settings.pingMax))
                } else if let ping = pingTime(connection) {
                    lower(wakeTo: ping)
                }
                if connection.open == 0 { lower(wakeTo: connection.used.advanced(by: settings.idleMax)) }
            }
        }
    }
}
