import Model
import Testing

@testable import PushScheduling

/// The machine of the pools, with virtual time and a shell that only notes what it is told to do.
final class PoolWorld {
    var machine: ConnectionPools
    var now = MonotonicTime(.seconds(1_000))
    /// Connections that the machine asked for, and that were not ended since; the first is the oldest.
    var connecting: [APNsConnectionID] = []
    var open: [APNsConnectionID] = []
    /// Connections that the machine has told the shell to end.
    var closed: [APNsConnectionID] = []
    /// Requests on each connection, in the order in which they left.
    var underWay: [APNsConnectionID: [UInt64]] = [:]
    var outcomes: [UInt64: ConnectionPools.Outcome] = [:]
    var answered: Set<UInt64> = []
    var cancelled: [UInt64] = []
    var pings: [APNsConnectionID] = []
    var news: [APNsNews] = []
    /// When each connection was begun, in all and of each pool.
    var begun: [MonotonicTime] = []
    var begunOf: [APNsPool: [MonotonicTime]] = [:]
    private var lastTicket: UInt64 = 0

    static let pool = APNsPool(host: "apple.example", teamID: "TEAM000001", keyID: "KEY0000001")

    init(_ change: (inout APNsClientSettings) -> Void = { _ in }, seed: UInt64 = 7) {
        var settings = APNsClientSettings()
        change(&settings)
        machine = ConnectionPools(settings, random: SeededGenerator(seed: seed))
    }

    /// Expects the invariants, and carries out what the machine wants. Ended connections are told at once.
    func settle() {
        var isSettled = false
        while !isSettled {
            isSettled = true
            for effect in machine.takeEffects() {
                isSettled = false
                carryOut(effect)
            }
            while let (ticket, connection) = machine.next(now: now) {
                #expect(open.contains(connection))
                underWay[connection, default: []].append(ticket)
                isSettled = false
            }
        }
        #expect(machine.brokenInvariant == nil)
    }

    private func carryOut(_ effect: ConnectionPools.Effect) {
        switch effect {
        case .connect(let id, let pool):
            connecting.append(id)
            begun.append(now)
            begunOf[pool, default: []].append(now)
        case .close(let id):
            closed.append(id)
            lose(id, reason: "closed")
        case .cancel(let ticket, let id):
            cancelled.append(ticket)
            forget(ticket, id)
            machine.lost(ticket, reason: "too late", now: now)
        case .ping(let id): pings.append(id)
        case .answer(let ticket, let outcome):
            #expect(outcomes[ticket] == nil && !answered.contains(ticket), "two outcomes")
            outcomes[ticket] = outcome
        case .news(_, let told): news.append(told)
        }
    }

    private func forget(_ ticket: UInt64, _ id: APNsConnectionID) {
        underWay[id]?.removeAll { $0 == ticket }
    }

    // MARK: What happens

    @discardableResult
    func submit(_ count: Int = 1, to pool: APNsPool = PoolWorld.pool) -> [UInt64] {
        let tickets = (0..<count).map { lastTicket + UInt64($0) + 1 }
        lastTicket += UInt64(count)
        for ticket in tickets { machine.submit(ticket, to: pool, now: now) }
        settle()
        return tickets
    }

    /// The connection in the making stands, and the service says how many streams it allows.
    @discardableResult
    func connect(streams: Int = 1_000) -> APNsConnectionID? {
        guard !connecting.isEmpty else { return nil }
        let id = connecting.removeFirst()
        open.append(id)
        machine.opened(id, now: now)
        machine.allowed(streams, on: id, now: now)
        settle()
        return id
    }

    func refuseConnection() {
        guard !connecting.isEmpty else { return }
        lose(connecting[0], reason: "refused")
        settle()
    }

    /// The connection is gone. What had not left: `unsent`.
    func lose(_ id: APNsConnectionID, reason: String = "gone", unsent: Set<UInt64> = []) {
        connecting.removeAll { $0 == id }
        open.removeAll { $0 == id }
        underWay[id] = nil
        machine.ended(id, reason: reason, unsent: unsent, now: now)
    }

    /// Answers the oldest requests of a connection.
    func answer(_ id: APNsConnectionID, _ status: Int = 200, count: Int = 1) {
        for _ in 0..<count {
            guard let ticket = underWay[id]?.first else { return }
            forget(ticket, id)
            machine.heard(id, now: now)
            machine.answered(ticket, status: status, now: now)
            #expect(outcomes[ticket] == nil && answered.insert(ticket).inserted, "two outcomes")
            settle()
        }
    }

    /// The service refuses requests of a connection, the youngest first.
    func refuse(_ id: APNsConnectionID, count: Int = 1) {
        for _ in 0..<count {
            guard let ticket = underWay[id]?.last else { return }
            forget(ticket, id)
            machine.refused(ticket, reason: "refused", now: now)
        }
        settle()
    }

    /// The service resets the oldest stream of a connection.
    func reset(_ id: APNsConnectionID) {
        guard let ticket = underWay[id]?.first else { return }
        forget(ticket, id)
        machine.lost(ticket, reason: "reset", now: now)
        settle()
    }

    /// A connection that has proven itself.
    func proven(streams: Int = 1_000) -> APNsConnectionID? {
        submit()
        guard let id = connect(streams: streams) else { return nil }
        answer(id)
        return id
    }

    /// Time passes; the machine is woken whenever it wants to be.
    func pass(_ time: TimeSpan) {
        let end = now.advanced(by: time)
        while let wake = machine.nextWake, wake <= end {
            now = max(now, wake)
            machine.woke(now: now)
            settle()
            // Woken at its time the machine must not want the same again.
            #expect(machine.nextWake.map { $0 > now } ?? true)
        }
        now = end
    }

    func count(_ id: APNsConnectionID) -> Int { underWay[id]?.count ?? 0 }
}
