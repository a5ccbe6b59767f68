import Catalog
import Journal
import Model
import Ownership

// How a node of a cluster begins, in the place of `Node.openShared`: the real decision whether it joins a
// life or begins another one, and the key of that life (rule: copies-are-strangers). Lives are drawn at
// random outside the seed. Runs compare lives and keys, and depend on nothing else of them.

extension ClusterSimulation {
    /// Only runs with copies settle lives: otherwise nodes begin at once.
    var hasLives: Bool { options.copiedAfter > .zero && !options.isLone }

    func settleLife(_ index: Int) {
        slots[index].startsAt = now
        look(index, Generation.Settling(name: slots[index].name), since: now)
    }

    /// - Parameter beginning: `startsAt` of the machine, which changes if another start takes its place.
    private func look(_ index: Int, _ settling: Generation.Settling, since beginning: MonotonicTime) {
        let asked = now
        afterCall(index, isWrite: false, since: beginning) { [self] in
            var settling = settling
            var readings = [now, asked]
            let living = try home.engine.sessions()
            let standing = try settle(index, &settling) { readings.popLast() ?? self.now }
            for row in living where try !home.engine.isAlive(row.id) { fenced(row.id, by: index) }
            if let standing { return begin(index, standing, since: beginning) }
            after(LeaseWatch.pause, .timer) {
                guard self.slots[index].startsAt == beginning else { return }
                self.look(index, settling, since: beginning)
            }
        }
    }

    private func settle(
        _ index: Int, _ settling: inout Generation.Settling, clock: () -> MonotonicTime
    ) throws -> Generation.Standing? {
        func read() throws -> Generation.Standing {
            try Generation.current(home.engine, databases: databases.count) {
                var pasts: [Int: EnginePast] = [:]
                for database in databases.dropFirst() where database.reaches(index) {
                    pasts[database.engine.share.number] = try database.engine.past()
                }
                return pasts
            }
        }
        #if DEBUG
            if options.plantedInCluster.contains(.copiesKeepLives) { return try read() }
        #endif
        return try settling.step(home.engine, now: clock, read: read)
    }

    private func begin(_ index: Int, _ standing: Generation.Standing, since beginning: MonotonicTime) {
        if !standing.isServed {
            (original ?? self).count(original == nil ? "lives begun" : "lives of copies")
        }
        afterCall(index, isWrite: true, since: beginning) { [self] in
            guard mayJoin(index) else { return restart(index, in: .seconds(1)) }
            let session = try home.engine.beginSession(node: slots[index].name)
            note(session.rawValue)
            afterCall(index, isWrite: true, since: beginning) { [self] in
                guard try Generation.confirms(standing, home.engine) else { throw Generation.overtaken }
                try start(index, as: session, standing)
            }
        }
    }

    private func start(
        _ index: Int, as session: SessionID, _ standing: Generation.Standing
    ) throws {
        var life = standing.life
        #if DEBUG
            if options.plantedInCluster.contains(.copiesShareKeys) { life = [] }
        #endif
        let secrets = try ClusterSecrets.made(home.engine, .plain)
        let process = SimulatedProcess(self, index: index, session: session, generation: standing.number)
        process.key = secrets.derivation(of: .gossip, life: life)
        begin(process)
    }

    /// Carries `body` out at the home when the call has reached it. A start that the database refuses begins
    /// again (`Node.patiently`).
    private func afterCall(
        _ index: Int, isWrite: Bool, since beginning: MonotonicTime, _ body: @escaping () throws -> Void
    ) {
        after(home.travel(isWrite: isWrite), .database) { [self] in
            guard slots[index].startsAt == beginning else { return }
            guard home.reaches(index) else { return restart(index, in: .seconds(1)) }
            do { try body() } catch { restart(index, in: .milliseconds(200)) }
        }
    }
}
