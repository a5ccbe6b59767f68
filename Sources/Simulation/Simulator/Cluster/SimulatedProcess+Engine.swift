import Journal
import Model
import NodeCore

// The databases' side of a process, in the place of `Engines` and `DatabaseConnections`.

extension SimulatedProcess {
    func report(_ resolved: [Resolved]) {
        for one in resolved { loop(of: one.partition).post(.resolved(one)) }
    }

    /// Each database has its own queue and batch in flight.
    func submit(_ rows: [Row]) {
        world.checkBounds(of: rows)
        for (number, connections) in databaseConnections.enumerated() {
            let part = rows.filter { map.database(of: $0.partition) == number }
            if !part.isEmpty { connections.journal.submit(part) }
        }
    }

    func call(_ call: DatabaseCall) {
        let caller = DatabaseCall.Caller(
            session: session, node: world.slots[index].name, bytesMax: world.options.loadBytesMax)
        let connections = databaseConnections[call.database(map)]
        let asked = clock
        connections.perform(call) { [unowned self] database in
            // The database answers immediately, so the time for which it was asked is the round trip.
            var readings = [clock, asked]
            let answer = try database.perform(call, for: caller, self) { readings.popLast() ?? asked }
            return (answer, database.catalog)
        } then: { [unowned self] result in
            if case .poll(_, let asked) = call, case .success(let (_, catalog)) = result {
                authority = asked.advanced(by: world.options.ownership.lease)
                if catalog.version != self.catalog.version { apply(catalog) }
            }
            take(call.answer(result.map(\.0)))
        }
    }

    private func take(_ answer: DatabaseAnswer) {
        for event in answer.events { tell(event) }
        guard let (partition, message) = answer.message else { return }
        if case .engine(.loaded(let loaded, _, _)) = message, loaded.isTail {
            world.count("partitions inherited as followed")
        }
        loop(of: partition).post(message)
    }
}
