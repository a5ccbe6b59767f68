import Model

// What must hold of the machine between any two events.

extension ConnectionPools {
    /// The first invariant that does not hold; `nil` if all do.
    var brokenInvariant: String? { brokenOfRequest ?? brokenOfPool ?? brokenOfConnection }

    private var brokenOfRequest: String? {
        var lines: [Int: Set<Ticket>] = [:]
        for pool in pools.values {
            let line = Set(pool.waiting).union(pool.again)
            if line.count != pool.waiting.count + pool.again.count { return "a request waits twice" }
            if line.contains(where: { requests[$0] == nil }) { return "a request waits that is answered" }
            if zip(pool.again, pool.again.dropFirst()).contains(where: { $0 < $1 }) {
                return "requests leave again out of order"
            }
            lines[pool.number] = line
        }
        for (ticket, request) in requests {
            let isWaiting = lines[request.pool.number]?.contains(ticket) ?? false
            if pools[request.pool.key] !== request.pool { return "a request is of a pool that is forgotten" }
            if isWaiting == (request.connection != nil) { return "a request is nowhere, or in two places" }
            if request.tries > settings.triesMax { return "a request has left too often" }
            guard let connection = request.connection else { continue }
            if connections[connection.id] !== connection { return "a request is on no connection" }
            if connection.pool !== request.pool { return "a request is on another pool's connection" }
        }
        let all = lines.values.reduce(0) { $0 + $1.count }
        if waiting != all { return "waiting requests are counted wrong" }
        // A request that leaves again had its place before.
        let again = pools.values.reduce(0) { $0 + $1.again.count }
        return all - again > settings.waitingMax ? "more requests wait than may" : nil
    }

    private var brokenOfPool: String? {
        let listed = Set(turns.map(\.number))
        if listed.count != turns.count { return "a pool stands in turns twice" }
        for pool in pools.values {
            if pool.isInTurns != listed.contains(pool.number) { return "a pool's turn is noted wrong" }
            let standing = pool.connections.filter { $0.state == .connecting || $0.state == .open }
            if standing.count > settings.connectionsPerPoolMax { return "a pool has too many connections" }
            if pool.connections.count > 2 * settings.connectionsPerPoolMax {
                return "a pool has too many connections that end"
            }
            if pool.connections.filter({ $0.state == .connecting }).count > 1 {
                return "a pool begins two connections at once"
            }
            if let first = pool.first, let request = requests[first], !pool.isInTurns,
                isPast(request.since, settings.waitMax)
            {
                return "nobody looks in time at a request that waits"
            }
        }
        return nil
    }

    private var brokenOfConnection: String? {
        var open: [APNsConnectionID: Int] = [:]
        for request in requests.values { if let id = request.connection?.id { open[id, default: 0] += 1 } }
        let made = connections.values.filter { $0.opened == nil }.count
        if made != connecting { return "connections in the making are counted wrong" }
        if connecting > settings.connectingMax { return "too many connections are in the making" }
        if connections.count > settings.connectionsMax { return "there are too many connections" }
        for (id, connection) in connections {
            if connection.id != id || !connection.pool.connections.contains(where: { $0 === connection }) {
                return "a connection is not its pool's"
            }
            if connection.open != open[id] ?? 0 { return "a connection's requests are counted wrong" }
            if connection.opened == nil, connection.open > 0 { return "a request left before its connection" }
            // A bound that the service lowers holds for what leaves later.
            let most = max(connection.streamsMax(settings), connection.over)
            if connection.open > most { return "more streams are open than the service allows" }
            if let broken = brokenOfTime(connection) { return broken }
        }
        return pools.values.contains { $0.connections.contains { connections[$0.id] !== $0 } }
            ? "a pool has a connection that is gone" : nil
    }

    private func brokenOfTime(_ connection: Connection) -> String? {
        switch connection.state {
        case .closing: return nil
        case .connecting:
            return isPast(connection.began, settings.connectMax)
                ? "nobody looks in time at a connection in the making" : nil
        case .open, .draining:
            guard connection.open > 0 else { return nil }
            guard let first = connection.left.first else { return "a request under way has no deadline" }
            return isPast(first.at, settings.answerMax) && requests[first.ticket]?.isCancelled != true
                ? "nobody looks in time at a request under way" : nil
        }
    }

    /// Whether the machine looks again only after the end of a time.
    private func isPast(_ begin: MonotonicTime, _ most: TimeSpan) -> Bool {
        nextWake.map { $0 > begin.advanced(by: most) } ?? true
    }
}
